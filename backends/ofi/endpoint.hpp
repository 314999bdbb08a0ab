// Posts: each becomes one call of libfabric to the address of its rank. Callers: proto through
// net::endpoint. Threads: shared. Always true: a post that answers retry_* has changed nothing.
#pragma once

#include "backends/ofi/event_queue.hpp"
#include "backends/ofi/region.hpp"
#include "lci/net/backend.hpp"

namespace lci::ofi {

class endpoint final : public net::endpoint {
 public:
  endpoint(device_queues& queues, key_cache& keys) noexcept;
  static std::unique_ptr<net::endpoint> make(event_queue& queue, bool) {
    return std::make_unique<endpoint>(queue, queue.keys());
  }
  errorcode_t send_inline(int rank, std::uint32_t imm, const void* head, std::size_t head_size,
                          const void* payload, std::size_t size) noexcept override;
  errorcode_t send(const net::net_op& op) noexcept override;
  errorcode_t put(const net::net_op& op) noexcept override { return rma(op, access::write); }
  errorcode_t put_imm(const net::net_op& op) noexcept override {
    return rma(op, access::write_and_tell);
  }
  errorcode_t get(const net::net_op& op) noexcept override { return rma(op, access::read); }
  errorcode_t would_post(int rank) noexcept override;

 private:
  enum class access : std::uint8_t { write, write_and_tell, read };
  struct transfer;
  std::uint64_t word_of(word::kind what, std::uint32_t imm) const noexcept {
    return word::make(me_, what, imm);
  }
  // What comes behind a write: something that its target is told, or not.
  enum class follower : std::uint8_t { message, write, read };
  bool must_wait(const connection& on, bool is_fenced, follower what) const noexcept;
  errorcode_t send_buffer(connection& on, const net::net_op& op) noexcept;
  errorcode_t send_packet(connection& on, const net::net_op& op) noexcept;
  errorcode_t rma(const net::net_op& op, access what) noexcept;
  // A refused post is `posted` too, where the sink is told why.
  struct outcome {
    errorcode_t answer;
    bool is_out = false;  // the provider has taken something
  };
  outcome post(connection& on, const net::net_op& op, access what,
               const net::remote_target& at) noexcept;
  outcome move_nothing(connection& on, const net::net_op& op, access what) noexcept;
  long give(const connection& on, const transfer& what, fid_ep* ep, ticket* context) const noexcept;

  device_queues& queues_;
  key_cache& keys_;
  regions& memory_;
  const int me_;
  const bool keeps_write_order_;
  const std::uint64_t write_flags_;
};

}  // namespace lci::ofi
