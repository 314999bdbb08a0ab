// Posts: each becomes one work request on the connection to its rank. Callers: proto through
// net::endpoint. Threads: shared. Always true: a post that answers retry_* has changed nothing.
#pragma once

#include "backends/ibv/device_queues.hpp"
#include "backends/ibv/event_queue.hpp"
#include "backends/ibv/region.hpp"
#include "lci/net/backend.hpp"

namespace lci::ibv {

class endpoint final : public net::endpoint {
 public:
  endpoint(device_queues& queues, key_cache& keys, claim by) noexcept;
  static std::unique_ptr<net::endpoint> make(event_queue& queue, bool is_control) {
    return std::make_unique<endpoint>(queue, queue.keys(),
                                      is_control ? claim::library : claim::user);
  }
  errorcode_t send_inline(int rank, std::uint32_t imm, const void* head, std::size_t head_size,
                          const void* payload, std::size_t size) noexcept override;
  errorcode_t send(const net::net_op& op) noexcept override;
  errorcode_t put(const net::net_op& op) noexcept override;
  errorcode_t put_imm(const net::net_op& op) noexcept override;
  errorcode_t get(const net::net_op& op) noexcept override;
  errorcode_t would_post(int rank) noexcept override;

 private:
  errorcode_t send_copy(connection& on, const net::net_op& op) noexcept;
  errorcode_t rma(const net::net_op& op, ibv_wr_opcode what) noexcept;

  device_queues& queues_;
  key_cache& keys_;
  regions& memory_;
  const int me_;
  const claim by_;
  const std::size_t max_inline_;
};

}  // namespace lci::ibv
