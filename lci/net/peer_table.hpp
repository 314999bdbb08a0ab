// What is known of each rank of the job: whether it was met, whether it has ended, and why. The
// only place above the backends that keeps this. One per runtime, part of its core.
//
// Who reports: networks, when they begin to connect with a rank and when they have
// (fabric_config::peers); the device that has delivered the last message of a rank, through
// sink::on_peer_ended(); the failure detector, for ranks that no network watches. All others read.
//
// What a network knows of its connection with a rank, and a device of what it has delivered, are
// other facts: they say when a report is due, and end with the connection
// (docs/decisions/0042-peer-table.md).
//
// Threads: shared. A subscriber is told in the thread that reports, under the lock. Always true: a
// rank moves only as PEER_TABLE says, so that one that has ended never comes back; the first reason
// of an end stays, but that of a failure replaces that of a leave; each change is told once to all
// subscribers, in the order of the changes of that rank.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lci/base/platform.hpp"
#include "lci/base/state_table.hpp"

namespace lci::net {

// unknown: no network has begun to connect with it. left: it has disconnected in an orderly way.
// failed: it died, or cannot be reached. From `left` on it has ended.
enum class peer_state : std::uint8_t { unknown, connecting, ready, left, failed };
enum class peer_event : std::uint8_t { connect, connected, leave, fail };
// note: the state is another one. end: the reason is kept as well, and the epoch changes.
enum class peer_action : std::uint8_t { ignore, note, end };

// Which report may follow which, for the code that walks it and the page that is printed from it.
using peer_row = base::transition<peer_state, peer_event, peer_action>;
extern const std::array<peer_row, 16> PEER_TABLE;
const char* name_of(peer_state s) noexcept;
const char* name_of(peer_event e) noexcept;

class peer_table {
 public:
  class subscriber {
   public:
    // `rank` is in that state now. The lock is held: it notes that, calls nothing that reports,
    // subscribes or asks for a reason, and does not wait.
    virtual void on_peer(int rank, peer_state now) noexcept = 0;
    // `rank` has left a network, but not the job: its state is the same. In the same way.
    virtual void on_part(int /*rank*/) noexcept {}

   protected:
    ~subscriber() = default;
  };

  explicit peer_table(int ranks);
  peer_table(const peer_table&) = delete;
  peer_table& operator=(const peer_table&) = delete;

  int size() const noexcept { return size_; }
  // Relaxed, for the next two as well: what else is known of an end is read after epoch() has
  // changed, or under the lock.
  peer_state state(int rank) const noexcept {
    return state_of(rank).load(std::memory_order_relaxed);
  }
  // It has left or failed.
  bool has_ended(int rank) const noexcept { return state(rank) >= peer_state::left; }
  bool has_failed(int rank) const noexcept { return state(rank) == peer_state::failed; }
  // Changes with each end of a rank and each part(), 0: there was none. edge peers.epoch: partners
  // are report() and part().
  std::uint32_t epoch() const noexcept { return epoch_.load(std::memory_order_acquire); }

  // Answers whether the state is another one now. The reason counts for an end only.
  bool report(int rank, peer_event what, std::string_view reason = {}) noexcept;
  // It has left one of several networks, in an orderly way. The job goes on with it: only devices
  // of that network are concerned, which know it by themselves. The reason counts until an end.
  void part(int rank, std::string_view reason) noexcept;
  // Subscribers are told the state of a rank that has ended once more, since something that depends
  // on it is different now. Of another one, that it may have left a network.
  void remind(int rank) noexcept;
  // Throws std::bad_alloc.
  void subscribe(subscriber& one);
  // Afterwards it is not told any more, nor being told. Not from within on_peer().
  void unsubscribe(subscriber& one) noexcept;

  // Why that rank has ended, for people. Throws std::bad_alloc.
  std::string reason(int rank) const;
  // Throws peer_failure_error if `rank` has ended.
  void check(int rank) const {
    if (has_ended(rank)) [[unlikely]]
      throw_ended(rank);
  }
  [[noreturn]] LCI_COLD void throw_ended(int rank) const;
  // Those that have failed, in ascending order.
  std::vector<int> failed() const;
  // Some rank has failed, and that was reported in the time before now.
  bool has_failed_lately(std::chrono::steady_clock::duration lately) const noexcept;

 private:
  std::atomic<peer_state>& state_of(int rank) noexcept {
    return states_[static_cast<std::size_t>(rank)];
  }
  const std::atomic<peer_state>& state_of(int rank) const noexcept {
    return states_[static_cast<std::size_t>(rank)];
  }
  void keep_reason_locked(int rank, std::string_view reason) noexcept;
  void tell_locked(int rank) noexcept;
  void remind_locked(int rank) noexcept;

  const int size_;
  std::vector<std::atomic<peer_state>> states_;  // by rank; changed under mutex_
  std::atomic<std::uint32_t> epoch_{0};          // likewise
  mutable std::mutex mutex_;                     // guards what follows
  std::vector<std::string> reasons_;             // by rank
  std::optional<std::chrono::steady_clock::time_point> last_failure_;
  std::vector<subscriber*> subscribers_;
};

}  // namespace lci::net
