// Posts: each becomes one work request on the link to its rank. Callers: proto through
// net::endpoint. Threads: shared. Always true: a post that answers retry_* has changed nothing.
#pragma once

#include "backends/ibv/port.hpp"
#include "backends/ibv/region.hpp"
#include "lci/net/backend.hpp"

namespace lci::ibv {

class fabric;
struct work;

class endpoint final : public net::endpoint {
 public:
  endpoint(fabric& f, port& p, claim by) noexcept;
  errorcode_t send_inline(int rank, std::uint32_t imm, const void* head, std::size_t head_size,
                          const void* payload, std::size_t size) noexcept override;
  errorcode_t send(const net::net_op& op) noexcept override;
  errorcode_t put(const net::net_op& op) noexcept override;
  errorcode_t put_imm(const net::net_op& op) noexcept override;
  errorcode_t get(const net::net_op& op) noexcept override;
  errorcode_t would_post(int rank) noexcept override;

 private:
  errorcode_t send_copy(link& on, const net::net_op& op) noexcept;
  errorcode_t rma(const net::net_op& op, ibv_wr_opcode what) noexcept;
  errorcode_t take_local(const net::net_op& op, std::uint32_t& key,
                         std::uint64_t& registered) noexcept;
  errorcode_t take_remote(const net::net_op& op, net::remote_target& at) noexcept;
  pieces cut_for(const net::net_op& op, const link& on, const net::remote_target& at,
                 std::uint64_t key, regions::by_card& local) const noexcept;
  errorcode_t split_up(const net::net_op& op, ibv_wr_opcode what, link& on, const pieces& parts,
                       const net::remote_target& at, const regions::by_card& local,
                       std::uint64_t registered) noexcept;
  errorcode_t fail(const net::net_op& op, const char* reason) noexcept;

  fabric& fabric_;
  port& port_;
  regions& memory_;
  const int me_;
  const claim by_;
  const std::size_t max_inline_;
  const std::size_t rail_least_;  // bytes from which an operation goes in pieces
};

}  // namespace lci::ibv
