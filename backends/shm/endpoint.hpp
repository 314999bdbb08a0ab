// Posts: what goes into the calling thread's lane at once, and what is left to the bulk_stream.
// Callers: proto through net::endpoint. Threads: shared; a thread that owns its lane executes no
// locked instruction in send_inline(), nor in send() of a packet. Always true: a post that answers
// retry_* has changed nothing.
#pragma once

#include "backends/shm/bulk_stream.hpp"
#include "backends/shm/outbox.hpp"
#include "backends/shm/peer.hpp"
#include "lci/net/backend.hpp"

namespace lci::shm {

class connections;
class device_queues;
class short_gets;

class endpoint final : public net::endpoint {
 public:
  endpoint(connections& peers, device_queues& queues) noexcept;
  errorcode_t send_inline(int rank, std::uint32_t imm, const void* head, std::size_t head_size,
                          const void* payload, std::size_t size) noexcept override;
  errorcode_t send(const net::net_op& op) noexcept override;
  errorcode_t put(const net::net_op& op) noexcept override;
  errorcode_t put_inline(const net::small_put& what) noexcept override;
  errorcode_t put_imm(const net::net_op& op) noexcept override;
  errorcode_t get(const net::net_op& op) noexcept override;
  std::uint64_t unconsumed(int rank) noexcept override;

 private:
  errorcode_t send_inline_otherwise(int rank, std::uint32_t imm, const void* head,
                                    std::size_t head_size, const void* payload,
                                    std::size_t size) noexcept;
  errorcode_t send_packet(const net::net_op& op, tx_lane& lane) noexcept;
  errorcode_t rma(bulk_stream::kind what, const net::net_op& op) noexcept;
  errorcode_t meet(int rank, peer*& who) noexcept;
  errorcode_t put_inline_to_self(const net::small_put& what) noexcept;
  errorcode_t to_self(bulk_stream::kind what, const net::net_op& op) noexcept;
  errorcode_t put_in_slot(bulk_stream::kind what, const net::net_op& op) noexcept;
  // retry_nopacket: there is no memory for a ring, so it has to go another way.
  errorcode_t put_in_ring(bulk_stream::kind what, const net::net_op& op) noexcept;
  // is_chosen: it may go another way, if that one does not work.
  errorcode_t copy_now(bulk_stream::kind what, peer& who, const net::net_op& op,
                       bool is_chosen) noexcept;
  errorcode_t copy_measured(bulk_stream::kind what, peer& who, const net::net_op& op,
                            copy_in_post& choice, copy_in_post::way picked) noexcept;
  errorcode_t post_immediate(const net::net_op& op) noexcept;

  connections& peers_;
  outbox& out_;
  bulk_stream& flow_;
  short_gets& gets_;
};

}  // namespace lci::shm
