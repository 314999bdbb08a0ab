// What peers have registered: asked for at first use, and kept until they withdraw it. Base of a
// backend's `key_cache`, which asks. Owned by fabric. Threads: shared. Always true: a name finds
// its own registration or nothing, since names are given once.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <list>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include "lci/base/spinlock.hpp"
#include "lci/net/backend.hpp"
#include "lci/net/connected/connection.hpp"
#include "lci/net/connected/device_list.hpp"

namespace lci::net::connected {

// A row that was asked for, on one device: perhaps no thread polls others, here or at the peer, or
// not any more.
struct key_request {
  int rank = -1;
  int device = -1;
  remote_key name;
  bool is_sent = false;
  bool is_outdated = false;  // whatever comes may have been said before it was withdrawn
};

// Row: what a peer says of a registration. Request: derived from key_request. Queues: find(rank),
// index().
// Driver, derived from this, has:
//   MAY_DROP_SENT            nothing bad happens if an answer comes to a request that is forgotten;
//                            then requests are sent without the lock
//   view_of(row)             the same as a remote_view
//   is_name(name)            a name that a registration could have
//   ask(queues, on, request) sends it; false: not now
//   drop(request)            it leaves the list
template <class Driver, class Row, class Request, class Queues>
class key_cache {
 public:
  explicit key_cache(int ranks) : peers_(static_cast<std::size_t>(ranks)) {}
  key_cache(const key_cache&) = delete;
  key_cache& operator=(const key_cache&) = delete;

  // What is known; not_connected: it is asked for over that device. An unknown key is told once,
  // then asked for again.
  remote_view find(int rank, remote_key name, int device) noexcept {
    remote_view out;
    out.what = remote_view::answer::unknown_key;
    if (name.generation == 0 || !Driver::is_name(name)) return out;
    const std::lock_guard lock(lock_);
    auto& rows = rows_of(rank);
    if (const auto at = rows.find(name.slot);
        at != rows.end() && at->second.generation == name.generation) {
      if (at->second.row) return Driver::view_of(*at->second.row);
      rows.erase(at);
      return out;
    }
    try {
      request_locked(rank, name, device);
    } catch (...) {  // no memory now: asked again
    }
    out.what = remote_view::answer::not_connected;
    return out;
  }
  // There is something to ask over that device. Relaxed: a later poll sees it.
  bool is_open(int device) const noexcept {
    return open_[static_cast<std::size_t>(device)].load(std::memory_order_relaxed) != 0;
  }
  // Asks, over connections of that device, what has to be asked there.
  void serve(Queues& by) noexcept {
    if (!is_open(by.index())) return;
    {
      const std::unique_lock lock(lock_, std::try_to_lock);
      if (!lock) return;
      // No answer will come, and that the peer has ended is said elsewhere.
      erase_locked([&](const Request& one) { return stage_of(by, one) >= stage::left; });
      if constexpr (!Driver::MAY_DROP_SENT) {
        for (Request& one : requests_)
          if (stage_of(by, one) == stage::ready) ask_locked(by, one);
        return;
      }
    }
    if constexpr (Driver::MAY_DROP_SENT) ask_unlocked(by);
  }
  // No thread polls that device any more: what was not asked over it is not asked.
  void end_of(int device) noexcept {
    const std::lock_guard lock(lock_);
    erase_locked([&](const Request& one) { return one.device == device && !one.is_sent; });
  }
  // The peer may have withdrawn anything without a word: see fabric::deregister_region(). An answer
  // to what is asked for now counts for nothing, and is asked for again then. The request stays so
  // long: an answer that finds none could be taken for that to a later one.
  void outdate(int rank) noexcept {
    const std::lock_guard lock(lock_);
    outdate_locked(rank);
  }
  // The peer has withdrawn it; without a generation: all that it may have said before.
  void withdraw(int rank, remote_key name) noexcept {
    const std::lock_guard lock(lock_);
    if (name.generation == 0) return outdate_locked(rank);
    // As outdate(): the answer may come over another connection, behind this.
    for (Request& one : requests_) one.is_outdated |= one.is_sent && is_for(one, rank, name);
    auto& rows = rows_of(rank);
    const auto at = rows.find(name.slot);
    if (at != rows.end() && at->second.generation == name.generation) rows.erase(at);
  }
  // That rank will not answer any more.
  void forget(int rank) noexcept {
    const std::lock_guard lock(lock_);
    erase_locked([&](const Request& one) {
      return one.rank == rank && (Driver::MAY_DROP_SENT || !one.is_sent);
    });
  }

 protected:
  ~key_cache() = default;

  static bool is_for(const Request& one, int rank, remote_key name) noexcept {
    return one.rank == rank && one.name.slot == name.slot && one.name.generation == name.generation;
  }
  // Erases what is meant; the number of them.
  template <class Is>
  std::size_t erase_locked(Is&& is_meant) noexcept {
    return std::erase_if(requests_, [&](Request& one) {
      if (!is_meant(one)) return false;
      if (!one.is_sent) close_locked(one);
      self().drop(one);
      return true;
    });
  }
  void ask_locked(Queues& by, Request& one) noexcept {
    if (!self().ask(by, one)) return;
    one.is_sent = true;
    close_locked(one);
  }
  // It has to be asked again.
  void reopen_locked(Request& one) noexcept {
    one.is_sent = one.is_outdated = false;
    open_locked(one);
  }
  // An answer has come over that device. False: it is not to be kept, since it was not asked for or
  // what it says may have been withdrawn since.
  bool settle_locked(int rank, remote_key name, int device) noexcept {
    bool counts = false;
    erase_locked([&](const Request& one) {
      if (!one.is_sent || one.device != device || !is_for(one, rank, name)) return false;
      counts = !one.is_outdated;
      return true;
    });
    return counts;
  }
  // The answer: a row, or that there is none.
  void keep_locked(int rank, remote_key name, std::optional<Row> row) noexcept {
    try {
      rows_of(rank)[name.slot] = {name.generation, std::move(row)};
    } catch (...) {  // asked again
    }
  }
  void drop(Request&) noexcept {}

  base::spinlock lock_;  // guards everything below

 private:
  using stage = connection::stage;
  void outdate_locked(int rank) noexcept {
    for (Request& one : requests_) one.is_outdated |= one.is_sent && one.rank == rank;
    rows_of(rank).clear();
  }
  struct known {
    std::uint32_t generation = 0;
    std::optional<Row> row;  // nothing: it is unknown
  };
  using known_rows = std::unordered_map<std::uint32_t, known>;  // by slot
  Driver& self() noexcept { return static_cast<Driver&>(*this); }
  known_rows& rows_of(int rank) noexcept { return peers_[static_cast<std::size_t>(rank)]; }
  void open_locked(const Request& one) noexcept { count_locked(one, 1); }
  void close_locked(const Request& one) noexcept { count_locked(one, -1); }
  void count_locked(const Request& one, int change) noexcept {
    std::atomic<int>& open = open_[static_cast<std::size_t>(one.device)];
    open.store(open.load(std::memory_order_relaxed) + change, std::memory_order_relaxed);
  }
  // Of the connection over which it could be sent now; calling: of none.
  static stage stage_of(Queues& by, const Request& one) noexcept {
    const bool is_here = !one.is_sent && one.device == by.index();
    const auto* const on = is_here ? by.find(one.rank) : nullptr;
    return on != nullptr ? on->state() : stage::calling;
  }
  // Each is taken for sent first: an answer, or the peer's end, may come before ask() returns.
  void ask_unlocked(Queues& by) noexcept {
    Request next;
    while (take(by, next)) {
      if (self().ask(by, next)) continue;
      const std::lock_guard lock(lock_);
      for (Request& one : requests_)
        if (one.is_sent && one.device == next.device && is_for(one, next.rank, next.name))
          return reopen_locked(one);
      return;  // the peer has ended
    }
  }
  bool take(Queues& by, Request& out) noexcept {
    const std::lock_guard lock(lock_);
    for (Request& one : requests_) {
      if (stage_of(by, one) != stage::ready) continue;
      one.is_sent = true;
      close_locked(one);
      out = one;
      return true;
    }
    return false;
  }
  void request_locked(int rank, remote_key name, int device) {
    for (const Request& one : requests_)
      if (one.device == device && is_for(one, rank, name)) return;
    Request& made = requests_.emplace_back();
    made.rank = rank;
    made.device = device;
    made.name = name;
    open_locked(made);
  }

  std::vector<known_rows> peers_;
  std::list<Request> requests_;  // each stays where it is
  // Those that are not sent, by device: polling a device does nothing for what others have to ask.
  std::array<std::atomic<int>, MAX_DEVICES> open_{};
};

}  // namespace lci::net::connected
