// First contact, as far as it is the same over every network: which peers posts want to reach,
// which are called and not connected yet, and what kept us from it. How a hello is said is the
// network's. Part of a connector. Callers: backends that connect at first use. Threads: requests()
// and polls() shared, the rest under the connector's lock. Always true: what cannot be done now
// stays pending; what went wrong with one rank keeps no other back, and if it goes on, that rank is
// given up.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lci/base/log.hpp"
#include "lci/base/platform.hpp"
#include "lci/net/connected/pending_connects.hpp"

namespace lci::net::connected {

// Connection: rank, state(), stage::calling, pace. Queues: index(), find(), make_connection(),
// take_pending(), request(), give_up().
template <class Connection, class Queues>
class caller {
 public:
  // A rank with which the same step has failed so often in a row, over so long at least, cannot be
  // met. That is longer than a card tries to reach a peer with what is usual, and a shortage that
  // others make is over by then.
  static constexpr std::uint32_t FAILURES = 8;
  static constexpr std::uint64_t PATIENCE_MS = 3000;

  // What is done to be connected with a rank.
  enum class step : std::uint8_t {
    connect,  // make our end
    call,     // say a hello
    answer    // take one
  };

  // network: for messages; a literal.
  explicit caller(const char* network, std::uint64_t patience_ms = PATIENCE_MS)
      : network_(network), patience_ms_(patience_ms) {}

  // Queues that can be called. They outlive the last use of this.
  void add_queues(Queues& p) {
    const auto at = static_cast<std::size_t>(p.index());
    if (queues_.size() <= at) queues_.resize(at + 1);
    queues_[at] = &p;
  }
  // Null: it is not made yet.
  Queues* queues_at(std::size_t device) const noexcept {
    return device < queues_.size() ? queues_[device] : nullptr;
  }
  template <class Use>
  void for_each_queues(Use&& use) const {
    for (Queues* p : queues_)
      if (p != nullptr) use(*p);
  }

  // Where posts say that they want a connection.
  connect_requests& requests() noexcept { return requests_; }
  // Whether polls have to look: requests, calls, and what others have added.
  attention& polls() noexcept { return polls_; }
  // Enters a call to each rank to which a connection is pending.
  void start_pending() {
    if (!requests_.take()) return;
    for_each_queues([&](Queues& p) {
      for (const int rank : p.take_pending()) {
        if (p.find(rank) != nullptr) continue;
        const bool is_done = attempt(step::connect, p, rank, [&] { enter(p, rank); });
        if (!is_done && !is_given_up(p, rank)) p.request(rank);
      }
    });
  }
  // Does what connecting with that rank needs. What it throws is said, and it will be tried again,
  // until that rank is given up; from then on nothing is done. False: it is not done.
  template <class Act>
  bool attempt(step what, Queues& p, int rank, Act&& act) {
    if (is_given_up(p, rank)) return false;
    try {
      act();
    } catch (const std::exception& problem) {
      failed(what, p, rank, problem);
      return false;
    }
    troubles_.remove_if([&](const trouble& one) { return one.is(what, p, rank); });
    return true;
  }
  bool is_given_up(const Queues& p, int rank) const noexcept {
    return std::any_of(troubles_.begin(), troubles_.end(), [&](const trouble& one) {
      return one.with == &p && one.rank == rank && !one.reason.empty();
    });
  }
  // A new connection, which is called from now on.
  Connection& enter(Queues& p, int rank) {
    calling_.reserve(calling_.size() + 1);
    Connection& made = p.make_connection(rank);
    calling_.push_back({&made, &p});
    polls_.add();
    return made;
  }
  // call(connection, queues) for those that are due.
  template <class Call>
  void repeat(Call&& call) {
    const std::uint64_t now = base::cpu_ticks();
    for (std::size_t i = 0; i < calling_.size();) {
      Connection& on = *calling_[i].on;
      if (on.state() != Connection::stage::calling) {
        calling_[i] = calling_.back();
        calling_.pop_back();
        polls_.drop();
        continue;
      }
      if (on.pace.is_due(now)) {
        Queues& from = *calling_[i].from;
        attempt(step::call, from, on.rank, [&] { call(on, from); });
        if (on.pace.is_worth_a_line())
          base::log::warn(network_,
                          "rank %d does not answer; it has to make progress to be connected",
                          on.rank);
      }
      ++i;
    }
  }
  // use(connection, queues) for each rank that is called and has not answered. It may enter() more.
  template <class Use>
  void for_each_called(Use&& use) const {
    for (std::size_t i = 0; i < calling_.size(); ++i) {
      const entry one = calling_[i];
      if (one.on->state() == Connection::stage::calling) use(*one.on, *one.from);
    }
  }
  // That kept us from going on with any rank, which is tried again at every poll: said once.
  void put_off(const std::exception& problem) noexcept {
    if (is_new(said_, problem))
      base::log::warn(network_, "connecting continues later: %s", problem.what());
    requests_.raise();
  }

 private:
  // What goes wrong with one rank.
  struct trouble {
    step what;
    Queues* with;
    int rank;
    std::uint64_t since;  // ticks
    std::uint32_t failures = 0;
    std::size_t said = 0;     // hash of what was said last
    std::string reason = {};  // not empty: the rank is given up
    bool is(step s, const Queues& p, int r) const noexcept {
      return what == s && with == &p && rank == r && reason.empty();
    }
  };
  static bool is_new(std::size_t& said, const std::exception& problem) noexcept {
    const std::size_t text = std::hash<std::string_view>()(problem.what());
    return std::exchange(said, text) != text;
  }
  LCI_COLD void failed(step what, Queues& p, int rank, const std::exception& problem) noexcept {
    if (what == step::connect) requests_.raise();
    try {
      count(trouble_with(what, p, rank), problem);
    } catch (const std::exception&) {  // no memory: counted next time
    }
  }
  trouble& trouble_with(step what, Queues& p, int rank) {
    for (trouble& one : troubles_)
      if (one.is(what, p, rank)) return one;
    return troubles_.emplace_back(trouble{what, &p, rank, base::cpu_ticks()});
  }
  void count(trouble& one, const std::exception& problem) {
    if (is_new(one.said, problem))
      base::log::warn(network_, "connecting with rank %d continues later: %s", one.rank,
                      problem.what());
    if (++one.failures < FAILURES ||
        base::cpu_ticks() - one.since < patience_ms_ * base::ticks_per_ms())
      return;
    // Connected all the same: then it is the peer that wants something else, and it goes on.
    const Connection* const on = one.with->find(one.rank);
    if (on != nullptr && on->state() != Connection::stage::calling) return;
    one.reason = std::string("no connection can be made: ") + problem.what();
    base::log::error(network_, "no connection with rank %d can be made: %s", one.rank,
                     problem.what());
    one.with->give_up(one.rank, one.reason.c_str());
  }

  struct entry {
    Connection* on;
    Queues* from;
  };
  const char* const network_;
  attention polls_;
  connect_requests requests_{polls_};
  std::vector<Queues*> queues_;  // by device
  std::vector<entry> calling_;
  std::size_t said_ = 0;  // hash of what was said to have gone wrong last
  const std::uint64_t patience_ms_;
  // Those of ranks that were given up stay: their reasons were handed out.
  std::list<trouble> troubles_;
};

}  // namespace lci::net::connected
