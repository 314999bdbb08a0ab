// Posts: what goes into the calling thread's lane at once, and what is left to the pump.
// Callers: proto through net::endpoint. Threads: shared; a thread that owns its lane executes no
// locked instruction in send_inline(), nor in send() of a packet. Always true: a post that answers
// retry_* has changed nothing.
#pragma once

#include "backends/shm/outbox.hpp"
#include "backends/shm/peer.hpp"
#include "backends/shm/stream.hpp"
#include "lci/net/backend.hpp"

namespace lci::shm {

class peers;
class port;

class endpoint final : public net::endpoint {
 public:
  endpoint(peers& f, port& p) noexcept;
  errorcode_t send_inline(int rank, std::uint32_t imm, const void* head, std::size_t head_size,
                          const void* payload, std::size_t size) noexcept override;
  errorcode_t send(const net::net_op& op) noexcept override;
  errorcode_t put(const net::net_op& op) noexcept override;
  errorcode_t put_imm(const net::net_op& op) noexcept override;
  errorcode_t get(const net::net_op& op) noexcept override;
  std::uint64_t unconsumed(int rank) noexcept override;

 private:
  errorcode_t send_inline_cold(int rank, std::uint32_t imm, const void* head, std::size_t head_size,
                               const void* payload, std::size_t size) noexcept;
  errorcode_t send_packet(const net::net_op& op, tx_lane& lane) noexcept;
  errorcode_t rma(pump::kind what, const net::net_op& op) noexcept;
  errorcode_t meet(int rank, peer*& who) noexcept;
  errorcode_t to_self(pump::kind what, const net::net_op& op) noexcept;
  errorcode_t put_in_slot(pump::kind what, const net::net_op& op) noexcept;
  errorcode_t put_in_packet(pump::kind what, const net::net_op& op) noexcept;
  errorcode_t copy_now(pump::kind what, peer& who, const net::net_op& op) noexcept;
  errorcode_t post_immediate(const net::net_op& op) noexcept;

  peers& peers_;
  outbox& out_;
  pump& flow_;
};

}  // namespace lci::shm
