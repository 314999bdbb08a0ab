// First contact, as far as it is the same over every network: which peers posts want to reach,
// which are called and not connected yet, and what kept us from it. How a hello is said is the
// network's. Part of a connector. Callers: backends that connect at first use. Threads: request()
// and has_work() shared, the rest under the connector's lock. Always true: what cannot be done now
// stays pending; what went wrong with one rank keeps nobody else back, and if it goes on, that rank
// is given up.
#pragma once

#include <algorithm>
#include <atomic>
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

namespace lci::net::connected {

// Link: rank, state(), stage::calling, pace. Port: index(), find(), make_link(), take_pending(),
// request(), give_up().
template <class Link, class Port>
class caller {
 public:
  // A rank with which the same step has failed so often in a row, over so long at least, cannot be
  // met. That is longer than a card tries to reach a peer with what is usual, and a shortage that
  // others make is over by then.
  static constexpr std::uint32_t FAILURES = 8;
  static constexpr std::uint64_t PATIENCE_MS = 3000;

  // What is done to be connected with a rank.
  enum class step : std::uint8_t {
    link,   // make what is ours
    call,   // say a hello
    answer  // take one
  };

  // network: for messages; a literal.
  explicit caller(const char* network, std::uint64_t patience_ms = PATIENCE_MS)
      : network_(network), patience_ms_(patience_ms) {}

  // Ports that can be called. They outlive the last use of this.
  void add_port(Port& p) {
    const auto at = static_cast<std::size_t>(p.index());
    if (ports_.size() <= at) ports_.resize(at + 1);
    ports_[at] = &p;
  }
  // Null: it is not made yet.
  Port* port_at(std::size_t device) const noexcept {
    return device < ports_.size() ? ports_[device] : nullptr;
  }
  template <class Use>
  void for_each_port(Use&& use) const {
    for (Port* p : ports_)
      if (p != nullptr) use(*p);
  }

  // A post found no connection.
  // edge connect.request: the rank is in the list of its port before; partner is start_pending().
  void request() noexcept { pending_.store(true, std::memory_order_release); }
  bool has_work() const noexcept {
    return pending_.load(std::memory_order_relaxed) || calls_.load(std::memory_order_relaxed) != 0;
  }
  // Enters a call to each rank to which a connection is pending.
  void start_pending() {
    // edge connect.request: partner is request().
    if (!pending_.exchange(false, std::memory_order_acquire)) return;
    for_each_port([&](Port& p) {
      for (const int rank : p.take_pending()) {
        if (p.find(rank) != nullptr) continue;
        const bool is_done = attempt(step::link, p, rank, [&] { enter(p, rank); });
        if (!is_done && !is_given_up(p, rank)) p.request(rank);
      }
    });
  }
  // Does what connecting with that rank needs. What it throws is said, and it will be tried again,
  // until that rank is given up; from then on nothing is done. False: it is not done.
  template <class Act>
  bool attempt(step what, Port& p, int rank, Act&& act) {
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
  // A new link, which is called from now on.
  Link& enter(Port& p, int rank) {
    calling_.reserve(calling_.size() + 1);
    Link& made = p.make_link(rank);
    calling_.push_back({&made, &p});
    calls_.store(calling_.size(), std::memory_order_relaxed);
    return made;
  }
  // call(link, port) for those that are due.
  template <class Call>
  void repeat(Call&& call) {
    const std::uint64_t now = base::cpu_ticks();
    for (std::size_t i = 0; i < calling_.size();) {
      Link& on = *calling_[i].on;
      if (on.state() != Link::stage::calling) {
        calling_[i] = calling_.back();
        calling_.pop_back();
        calls_.store(calling_.size(), std::memory_order_relaxed);
        continue;
      }
      if (on.pace.is_due(now)) {
        Port& from = *calling_[i].from;
        attempt(step::call, from, on.rank, [&] { call(on, from); });
        if (on.pace.is_worth_a_line())
          base::log::warn(network_,
                          "rank %d does not answer; it has to make progress to be connected",
                          on.rank);
      }
      ++i;
    }
  }
  // use(link, port) for whoever is called and has not answered.
  template <class Use>
  void for_each_called(Use&& use) const {
    for (const entry& one : calling_)
      if (one.on->state() == Link::stage::calling) use(*one.on, *one.from);
  }
  // That kept us from going on with anybody, which is tried again at every poll: said once.
  void put_off(const std::exception& problem) noexcept {
    if (is_new(said_, problem))
      base::log::warn(network_, "connecting goes on later: %s", problem.what());
    request();
  }

 private:
  // What goes wrong with one rank.
  struct trouble {
    step what;
    Port* with;
    int rank;
    std::uint64_t since;  // ticks
    std::uint32_t failures = 0;
    std::size_t said = 0;     // hash of what was said last
    std::string reason = {};  // not empty: the rank is given up
    bool is(step s, const Port& p, int r) const noexcept {
      return what == s && with == &p && rank == r && reason.empty();
    }
  };
  bool is_given_up(const Port& p, int rank) const noexcept {
    return std::any_of(troubles_.begin(), troubles_.end(), [&](const trouble& one) {
      return one.with == &p && one.rank == rank && !one.reason.empty();
    });
  }
  static bool is_new(std::size_t& said, const std::exception& problem) noexcept {
    const std::size_t text = std::hash<std::string_view>()(problem.what());
    return std::exchange(said, text) != text;
  }
  LCI_COLD void failed(step what, Port& p, int rank, const std::exception& problem) noexcept {
    if (what == step::link) request();
    try {
      count(trouble_with(what, p, rank), problem);
    } catch (const std::exception&) {  // no memory: counted next time
    }
  }
  trouble& trouble_with(step what, Port& p, int rank) {
    for (trouble& one : troubles_)
      if (one.is(what, p, rank)) return one;
    return troubles_.emplace_back(trouble{what, &p, rank, base::cpu_ticks()});
  }
  void count(trouble& one, const std::exception& problem) {
    if (is_new(one.said, problem))
      base::log::warn(network_, "connecting with rank %d goes on later: %s", one.rank,
                      problem.what());
    if (++one.failures < FAILURES ||
        base::cpu_ticks() - one.since < patience_ms_ * base::ticks_per_ms())
      return;
    // Connected all the same: then it is the peer that wants something else, and it goes on.
    const Link* const on = one.with->find(one.rank);
    if (on != nullptr && on->state() != Link::stage::calling) return;
    one.reason = std::string("no connection can be made: ") + problem.what();
    base::log::error(network_, "rank %d is given up: %s", one.rank, problem.what());
    one.with->give_up(one.rank, one.reason.c_str());
  }

  struct entry {
    Link* on;
    Port* from;
  };
  const char* const network_;
  std::atomic<bool> pending_{false};
  std::atomic<std::size_t> calls_{0};  // size of calling_
  std::vector<Port*> ports_;           // by device
  std::vector<entry> calling_;
  std::size_t said_ = 0;  // hash of what was said to have gone wrong last
  const std::uint64_t patience_ms_;
  // Those of ranks that were given up stay: their reasons were handed out.
  std::list<trouble> troubles_;
};

}  // namespace lci::net::connected
