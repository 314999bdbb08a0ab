// What the devices of one runtime share: who we are, what is known of the other ranks, what the
// numbers mean, and the pools of operation records. Owned by the runtime, referred to by every
// engine. Threads: shared.
#pragma once

#include <atomic>
#include <cstdint>
#include <limits>
#include <memory>
#include <mutex>
#include <vector>

#include "lci/attr.hpp"
#include "lci/base/report.hpp"
#include "lci/base/spinlock.hpp"
#include "lci/data/object_pool.hpp"
#include "lci/mem/arena.hpp"
#include "lci/mem/region_table.hpp"
#include "lci/memory.hpp"
#include "lci/net/peer_table.hpp"
#include "lci/proto/engine/op.hpp"
#include "lci/proto/engine/remote_comp.hpp"
#include "lci/proto/engine/rmr_seal.hpp"
#include "lci/proto/engine/waiter.hpp"
#include "lci/proto/engine/wire.hpp"

namespace lci::proto {

// A device of the runtime, as the others see it. Threads: any; none is on the way of a message.
class member {
 public:
  // Nothing of `rank` is on its way to it any more.
  virtual bool has_all_of(int rank) const noexcept = 0;
  virtual const net::fabric& network() const noexcept = 0;
  // Looks at the ranks that have called. False: that is not possible now.
  virtual bool hear_callers() noexcept = 0;
  // Adds what is under way there to a report, in a signal handler.
  virtual void report(base::report::sheet& to) noexcept = 0;

 protected:
  ~member() = default;
};

// Knows of deaths that no network detects.
class failure_detector {
 public:
  // From progress, in any thread, now and then: reports which ranks have ended.
  virtual void look() noexcept = 0;

 protected:
  ~failure_detector() = default;
};

class core {
 public:
  static constexpr std::size_t NO_NETWORK = std::numeric_limits<std::size_t>::max();
  // `ranks_here`: of the job, on this host; where address space is limited they share it out.
  // most_reserve: of the arena, where address space is not limited.
  core(int rank, int size, wire::imm_layout layout, int ranks_here,
       std::size_t most_reserve = mem::arena::DEFAULT_RESERVE);

  const int me;
  const int n;
  const wire::imm_layout imm;
  rmr_seal seal;                      // set with the first net context
  std::size_t max_send = NO_NETWORK;  // of the first net context; see longest_copy()
  mem::arena arena;
  mem::region_table regions;
  remote_comps rcomps;
  data::object_pool<transfer> transfers;
  data::object_pool<waiter> waiters;
  // Attribute of the runtime; set before the first device is made.
  int max_handler_depth = runtime_settings_t().max_handler_depth;
  int max_handler_wait_s = runtime_settings_t().max_handler_wait_s;  // likewise
  // Where active messages that are not delivered in packets get their buffers; not owned.
  std::atomic<allocator_base_t*> allocator;
  // Gives back the buffer of an active message that is not delivered. from null: it is a packet.
  void give_back(void* buffer, allocator_base_t* from) noexcept;

  // Something beside networks has to be looked at in every round of progress (or no more, -1).
  void expect(int change) noexcept {
    under_way_.fetch_add(static_cast<std::size_t>(change), std::memory_order_relaxed);
  }
  // Relaxed: says whether a look is worth it, and is only read that way.
  std::size_t under_way() const noexcept { return under_way_.load(std::memory_order_relaxed); }
  bool is_busy() const noexcept { return under_way() != 0; }

  // A range of one of our registrations that a peer names; at null: there is none.
  struct named_range {
    std::byte* at = nullptr;
    mem::mem_kind kind = mem::mem_kind::host;
    int gpu = -1;  // of device memory
  };
  named_range find_range(wire::name region, std::uint64_t offset, std::size_t size) const noexcept;

  // Not owned; null: there is none. Set before the first device is made.
  failure_detector* failures = nullptr;

  // Every device, whole, enters itself, and leaves before it ends.
  void enter(member& one);
  void leave(member& one) noexcept;
  // Calls fn(member&) for each, none of which ends meanwhile; false when another has the lock. For
  // a signal handler.
  template <class Fn>
  bool try_each_member(Fn&& fn) noexcept {
    const std::unique_lock lock(members_lock_, std::try_to_lock);
    if (!lock.owns_lock()) return false;
    for (member* const one : members_) fn(*one);
    return true;
  }
  // Whether that one has not left.
  bool has(const member& one) noexcept;
  // Nothing of `rank`, which has ended, is still on its way to any device. Once true it stays so.
  bool is_all_in(int rank) noexcept;
  // The same for the devices of one network, which that rank has left.
  bool is_all_in_over(const net::fabric& network, int rank) noexcept;
  // No device is in touch with `rank`, which has left the job, so that nothing of it can come: each
  // has never met it, or was told that it left that network. False as well where that is not known
  // now.
  bool is_unmet(int rank) noexcept;

  // Attribute of the runtime; set before the first device is made.
  attr_failure_notice_t failure_notice = runtime_settings_t().failure_notice;
  // Behind what all messages need: of the table a post reads one byte.
  net::peer_table peers;

 private:
  std::atomic<std::size_t> under_way_{0};
  base::spinlock members_lock_;
  std::vector<member*> members_;  // under members_lock_
};

}  // namespace lci::proto
