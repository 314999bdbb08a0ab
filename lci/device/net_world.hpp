// The other side of a queue over a network of lci: writes and reads become puts and gets of an
// endpoint, all else becomes messages of a net_exchange. Callers: card_queue. Threads: single; the
// device's sink counts in any thread.
// Always true: a request is done only when all of its pieces are, so what follows it finds its
// data; a piece that the network does not take now is posted again by poll(), and no other is
// begun; a write's immediate data goes out when the write has completed at the peer. Without an
// exchange sends, immediate data and atomic operations fail as requests that the queue cannot do.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "lci/device/key_table.hpp"
#include "lci/device/net_exchange.hpp"
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
  std::uint32_t key_there = 0;  // in the peer's own table, for atomic operations
};

// The queue at the other end.
struct peer_queue {
  int rank = -1;
  std::uint32_t own_qpn = 0, peer_qpn = 0;
};

class net_world final : public world {
 public:
  // The endpoint registers what its network wants registered. `max_rma` is that of the network.
  net_world(net::endpoint& to, const peer_queue& peer, std::size_t max_rma, const net_fate& fate,
            net_exchange* exchange = nullptr);
  ~net_world() override;
  net_world(const net_world&) = delete;
  net_world& operator=(const net_world&) = delete;

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
  const peer_memory* find(remote_place place, std::uint64_t length, unsigned wanted) const noexcept;
  answer begin(verb v, unsigned wanted, const local_data& data, remote_place place) noexcept;
  answer say(wqe::opcode op, const local_data& data, std::uint32_t imm, bool solicited) noexcept;
  answer poll_data() noexcept;
  answer poll_message() noexcept;

  net::endpoint& to_;
  const peer_queue peer_;
  const std::size_t max_rma_;
  const net_fate fate_;
  net_exchange* const exchange_;
  std::vector<peer_memory> peers_;  // by key - FIRST_KEY; only grows

  // The puts or gets that are under way.
  verb verb_ = nullptr;
  local_data data_{};
  net::remote_key name_;
  std::uint64_t offset_ = 0;  // in the peer's memory, of what is posted next
  std::uint32_t piece_ = 0;
  std::uint32_t done_of_piece_ = 0;
  int posted_ = 0;
  int completed_before_ = 0, failed_before_ = 0;
  bool is_broken_ = false;
  bool notifies_ = false;  // a message follows

  // The message that is under way, and what it carries if that is not the program's.
  bool is_saying_ = false;
  net_exchange::outgoing out_;
  local_piece own_piece_{};
  std::uint32_t said_length_ = 0;
  net_exchange::atomic_data said_atomic_{};
  std::byte* old_ = nullptr;  // where an atomic operation puts what was there
  std::uint32_t old_size_ = 0;
};

}  // namespace lci::device
