// What is to run code of the program and has to wait: arrivals and completions for handlers, graphs
// and objects of the user, which came while the thread that met them was nested in handlers as deep
// as attribute max_handler_depth allows. A message is here with its bytes, out of the network's
// way: in a packet, or on the heap when a fair share of the packets lies here already. Everything
// else goes on at every depth. Also here are signals for which a completion queue had no memory.
//
// One per device. Threads: shared. Always true: what waits runs in the order in which it came, and
// no message that came later runs before it; one thread at a time runs it, in any round of progress
// that is not too deep. Why: docs/decisions/0030-depth-of-handlers.md.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "lci/base/platform.hpp"
#include "lci/base/spinlock.hpp"
#include "lci/completion.hpp"
#include "lci/mem/packet_pool.hpp"
#include "lci/net/backend.hpp"
#include "lci/proto/engine/handler_depth.hpp"
#include "lci/proto/engine/news.hpp"
#include "lci/proto/engine/part.hpp"

namespace lci::proto {

class signaller;

class handler_queue {
 public:
  // limit: the greatest depth at which handlers run. Throws std::bad_alloc.
  handler_queue(mem::arena& arena, mem::packet_pool& pool, signaller& signals, int limit);
  // What gets messages when it is their turn; before the first one comes.
  void set_arrivals(arrivals& to) noexcept { arrivals_ = &to; }
  // What is still here is freed, and said.
  ~handler_queue();
  handler_queue(const handler_queue&) = delete;
  handler_queue& operator=(const handler_queue&) = delete;

  std::uint32_t limit() const noexcept { return limit_; }
  // The greatest depth at which an arrival may be handled at once; 0 while others wait or have
  // their turn.
  // edge handler_queue.open: what waited has run; partner is end().
  std::uint32_t open_to() const noexcept { return open_to_.load(std::memory_order_acquire); }
  // Relaxed, here and below: hints whether to look closer, under lock_.
  std::size_t size() const noexcept { return size_.load(std::memory_order_relaxed); }
  // Completions among them of operations that were posted here.
  std::size_t completions() const noexcept { return completions_.load(std::memory_order_relaxed); }
  // The oldest one would have run, but there is no packet for it.
  bool is_starved() const noexcept { return is_starved_.load(std::memory_order_relaxed); }
  // The calling thread, which is in no round of progress or in a handler, cannot run what waits.
  bool is_out_of_reach() const noexcept { return size() != 0 && handler_depth::now() >= limit_; }

  // A message for the object of that number. taken or kept; deferred: no memory.
  LCI_COLD net::verdict add(const net::arrival& from, rcomp_t rcomp, tag_t tag) noexcept;
  // A signal. is_completion: of an operation posted here. False: no memory, and all places that
  // were made for that are in use.
  LCI_COLD bool add(comp_impl_t& to, const status_t& status, bool is_completion,
                    news what) noexcept;
  // Runs up to `most` at the calling thread's depth, if that allows it; answers how many.
  LCI_COLD std::size_t run(std::size_t most) noexcept;

 private:
  struct entry;
  bool may_hold_packet() noexcept;
  void append(entry& one) noexcept;
  entry* take(std::uint32_t& outer_depth) noexcept;
  void end(std::uint32_t outer_depth, entry* again) noexcept;
  bool give(entry& one) noexcept;
  void discard(entry* one) noexcept;
  void keep_spare(entry* one) noexcept;
  entry* take_spare() noexcept;
  void free_spares() noexcept;

  mem::arena& arena_;
  mem::packet_pool& pool_;
  signaller& signals_;
  arrivals* arrivals_ = nullptr;
  const std::uint32_t limit_;
  std::atomic<std::uint32_t> open_to_;
  std::atomic<std::size_t> size_{0}, completions_{0};
  std::atomic<std::size_t> packets_{0};  // that lie here
  std::atomic<bool> is_starved_{false};
  base::spinlock lock_;  // guards what follows, and changes of the others
  entry* first_ = nullptr;
  entry** end_ = &first_;
  entry* spares_ = nullptr;      // for signals
  std::uint64_t runner_ = 0;     // the thread that runs something now, as base::thread_serial()
  std::uint32_t run_depth_ = 0;  // at which depth; 0: none does
};

}  // namespace lci::proto
