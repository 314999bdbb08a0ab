// The connections of a device by rank, and what posts say of ranks that have none: they are asked
// for, or cannot be had. Base of a device's queues. Threads: shared, but take_pending(), keep(),
// publish() and add(), which are under the connector's lock. Always true: a connection that was
// added stays.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "lci/base/platform.hpp"
#include "lci/net/backend.hpp"
#include "lci/net/connected/pending_connects.hpp"
#include "lci/net/connected/unreachable.hpp"

namespace lci::net::connected {

template <class Connection>
class connection_table {
 public:
  using connection = Connection;

  // failure: why no rank can be connected with any more, for good, in a literal; it, or what it
  // holds, may be null. peers: fabric_config's.
  connection_table(std::size_t ranks, connect_requests& requests,
                   const std::atomic<const char*>* failure = nullptr, peer_table* peers = nullptr)
      : ranks_(ranks),
        of_(ranks),
        pending_(ranks),
        unreachable_(ranks),
        requests_(requests),
        failure_(failure),
        peers_(peers) {}

  Connection* find(int rank) const noexcept {
    // edge connection.made: partner is publish().
    return of_[static_cast<std::size_t>(rank)].load(std::memory_order_acquire);
  }
  // The same for a rank that may make no sense.
  Connection* find_checked(int rank) const noexcept {
    return static_cast<std::size_t>(rank) < ranks_ ? find(rank) : nullptr;
  }
  // What can be posted on; null: `code` is what the post answers, and it is asked for. The pointer
  // decides, not the code, so that a compiler sees as well that no post uses null.
  Connection* ready(int rank, errorcode_t& code) noexcept {
    Connection* const on = find_checked(rank);
    if (on != nullptr && on->state() == Connection::stage::ready) [[likely]]
      return on;
    code = on == nullptr ? no_connection(rank) : on->refusal();
    return nullptr;
  }
  // What a post answers where there is none. Asks for it.
  LCI_COLD errorcode_t no_connection(int rank) noexcept {
    if (static_cast<std::size_t>(rank) >= ranks_) return errorcode_t::fatal;
    if (unreachable_.is_told(rank)) return errorcode_t::fatal;
    request(rank);
    return errorcode_t::retry_nomem;
  }
  void request(int rank) noexcept {
    const char* const why =
        failure_ != nullptr ? failure_->load(std::memory_order_relaxed) : nullptr;
    if (why != nullptr) return give_up(rank, why);
    if (!unreachable_.has(rank) && pending_.add(rank)) requests_.raise();
  }
  std::vector<int> take_pending() { return pending_.take(); }
  // That rank cannot be met: at a next look it has failed, unless there is a connection by then.
  // The connector makes none from then on. why: outlives this.
  void give_up(int rank, const char* why) noexcept { unreachable_.add(rank, why); }

 protected:
  std::size_t ranks() const noexcept { return ranks_; }
  unreachable& unreached() noexcept { return unreachable_; }
  // It is ours from now on, and is found once it is published. Throws std::bad_alloc: it was freed.
  Connection& keep(std::unique_ptr<Connection> made) {
    store_.push_back(std::move(made));
    return *store_.back();
  }
  void publish(Connection& made) noexcept {
    made.report_to(peers_);
    // edge connection.made: partner is find().
    of_[static_cast<std::size_t>(made.rank)].store(&made, std::memory_order_release);
  }
  Connection& add(std::unique_ptr<Connection> made) {
    Connection& out = keep(std::move(made));
    publish(out);
    return out;
  }
  // What they use goes after them.
  void clear() noexcept { store_.clear(); }
  template <class Use>
  void for_each(Use&& use) const {
    for (std::size_t rank = 0; rank < ranks_; ++rank)
      if (Connection* const on = find(static_cast<int>(rank)); on != nullptr) use(*on);
  }
  template <class Is>
  bool are_all(Is&& is) const {
    bool out = true;
    for_each([&](const Connection& on) { out = out && is(on); });
    return out;
  }

 private:
  const std::size_t ranks_;
  std::vector<std::atomic<Connection*>> of_;  // by rank
  std::vector<std::unique_ptr<Connection>> store_;
  pending_connects pending_;
  unreachable unreachable_;
  connect_requests& requests_;
  const std::atomic<const char*>* const failure_;
  peer_table* const peers_;
};

}  // namespace lci::net::connected
