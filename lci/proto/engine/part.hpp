// What the engine asks of those above it, without knowing them. Threads: as each function says; all
// are rare, none is on the way of a small message.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "lci/base/report.hpp"
#include "lci/net/backend.hpp"

namespace lci::proto {

// How far a rank has ended for one device. left: what it has sent here may still be on its way;
// all_here: it is not.
enum class peer_end : std::uint8_t { none, left, all_here, failed };

// Code that leaves something for later rounds of progress, or keeps something about peers. Set up
// before the first round and taken out after the last.
class part {
 public:
  // There is more for serve_waiting(), or less, which the engine counts too. Any thread.
  void count_waiting(int change) noexcept {
    // relaxed, as below: says only whether a look is worth it
    waiting_.fetch_add(static_cast<std::size_t>(change), std::memory_order_relaxed);
  }
  bool is_waiting() const noexcept { return waiting_.load(std::memory_order_relaxed) != 0; }
  // In each round while core::is_busy(). Answers how much was done. May throw std::bad_alloc.
  virtual std::size_t poll() { return 0; }
  // In each round while is_waiting().
  virtual std::size_t serve_waiting() noexcept { return 0; }
  virtual bool is_quiet() const noexcept { return true; }
  // What that rank would have to do will not be done. In the order of `how`; steps may be left out.
  virtual void on_peer_ended(int /*rank*/, peer_end /*how*/) noexcept {}
  // That rank has left the job, and all that it had sent is in. May come again. Answers whether
  // something ends by that.
  virtual bool on_all_in(int /*rank*/) noexcept { return false; }
  // In a signal handler: see who_waits in host.
  virtual void report(base::report::sheet& to) noexcept { (void)to; }

 protected:
  ~part() = default;

 private:
  std::atomic<std::size_t> waiting_{0};
};

// Takes messages for completion objects.
class arrivals {
 public:
  // One that has waited for its turn.
  virtual net::verdict deliver_in_turn(const net::arrival& from, rcomp_t rcomp,
                                       tag_t tag) noexcept = 0;

 protected:
  ~arrivals() = default;
};

}  // namespace lci::proto
