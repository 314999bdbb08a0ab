// First contact, as far as it is the same over every network: which peers posts want, which are
// called and not connected yet, and what kept us from it. How a hello is said is the network's.
// Part of a connector. Callers: backends that connect at first use. Threads: wish() and has_work()
// shared, the rest under the connector's lock. Always true: what cannot be done now stays a wish.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <string_view>
#include <vector>

#include "lci/base/log.hpp"
#include "lci/base/platform.hpp"

namespace lci::net {

// Link: rank, state(), stage::calling, pace. Port: index(), find(), make_link(), take_wishes(),
// wish().
template <class Link, class Port>
class caller {
 public:
  // network: for messages; a literal.
  explicit caller(const char* network) : network_(network) {}

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
  void wish() noexcept { wishes_.store(true, std::memory_order_release); }
  bool has_work() const noexcept {
    return wishes_.load(std::memory_order_relaxed) || calls_.load(std::memory_order_relaxed) != 0;
  }
  // Enters a call to whoever is wished for. Throws what make_link() has thrown last, with all
  // others granted.
  void grant_wishes() {
    if (!wishes_.exchange(false, std::memory_order_acquire)) return;
    std::exception_ptr problem;
    for_each_port([&](Port& p) {
      for (const int rank : p.take_wishes()) {
        if (p.find(rank) != nullptr) continue;
        try {
          enter(p, rank);
        } catch (const std::exception&) {
          p.wish(rank);
          problem = std::current_exception();
        }
      }
    });
    if (problem) std::rethrow_exception(problem);
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
        call(on, *calling_[i].from);
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
  // That kept us from going on, which is tried again at every poll: said once.
  void put_off(const std::exception& problem) noexcept {
    const std::size_t text = std::hash<std::string_view>()(problem.what());
    if (said_ != text) {
      said_ = text;
      base::log::warn(network_, "connecting goes on later: %s", problem.what());
    }
    wish();
  }

 private:
  struct entry {
    Link* on;
    Port* from;
  };
  const char* const network_;
  std::atomic<bool> wishes_{false};
  std::atomic<std::size_t> calls_{0};  // size of calling_
  std::vector<Port*> ports_;           // by device
  std::vector<entry> calling_;
  std::size_t said_ = 0;  // hash of what was said to have gone wrong last
};

}  // namespace lci::net
