// The other side of a queue over a network of lci: writes and reads become puts and gets of an
// endpoint. Callers: card_queue. Threads: single; the device's sink counts in any thread.
// Always true: a request is done only when all of its pieces are, so what follows it finds its
// data; a piece that the network does not take now is posted again by poll(), and no other is
// begun. Not there: sends, immediate data and atomic operations, for which the backend contract has
// no one operation; they fail as requests that the queue cannot do.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "lci/device/key_table.hpp"
#include "lci/device/world.hpp"
#include "lci/net/backend.hpp"

namespace lci::device {

// What the device's sink is told of operations that carry the context.
struct net_fate {
  void* context;
  const std::atomic<int>* completed;
  const std::atomic<int>* failed;
};

// Memory of a peer, as its program has told.
struct peer_memory {
  net::remote_key name;
  std::uint64_t base = 0;  // the address that requests say for its first byte; 0: they say offsets
  std::uint64_t length = 0;
  unsigned allowed = REMOTE_READ | REMOTE_WRITE;
};

class net_world final : public world {
 public:
  // The endpoint registers what its network wants registered. `max_rma` is that of the network.
  net_world(net::endpoint& to, int rank, std::size_t max_rma, const net_fate& fate);

  // The key that requests name.
  std::uint32_t add(const peer_memory& what);

  answer put(wqe::opcode op, const local_data& from, remote_place to, std::uint32_t imm,
             bool solicited) noexcept override;
  answer get(remote_place from, const local_data& to) noexcept override;
  answer send(wqe::opcode op, const local_data& from, std::uint32_t imm,
              bool solicited) noexcept override;
  answer atomic(wqe::opcode op, const wqe::atomic_operands& with, remote_place at,
                std::byte* old) noexcept override;
  answer poll() noexcept override;

 private:
  using verb = errorcode_t (net::endpoint::*)(const net::net_op&) noexcept;
  answer begin(verb v, unsigned wanted, const local_data& data, remote_place place) noexcept;
  const peer_memory* find(remote_place place, std::uint64_t length, unsigned wanted) const noexcept;

  net::endpoint& to_;
  const int rank_;
  const std::size_t max_rma_;
  const net_fate fate_;
  std::vector<peer_memory> peers_;  // by key - FIRST_KEY; only grows
  // The request that is under way.
  verb verb_ = nullptr;
  local_data data_{};
  net::remote_key name_;
  std::uint64_t offset_ = 0;  // in the peer's memory, of what is posted next
  std::uint32_t piece_ = 0;
  std::uint32_t done_of_piece_ = 0;
  int posted_ = 0;
  int completed_before_ = 0, failed_before_ = 0;
  bool is_broken_ = false;
};

}  // namespace lci::device
