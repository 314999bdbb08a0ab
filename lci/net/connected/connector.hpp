// How connections come about, as far as it is the same over every network: hellos to ranks to which
// a connection is wanted, again and again, until each side knows that the other knows it. No rank
// is talked to before that. Base of a backend's `connector`, which sends hellos. Owned by fabric;
// called from polls. Threads: look() shared, one inside at a time; requests(), polls() and
// make_ready() shared; the rest single. Always true: a hello can be lost, come twice or late.
#pragma once

#include <exception>
#include <functional>
#include <mutex>
#include <utility>

#include "lci/base/log.hpp"
#include "lci/base/platform.hpp"
#include "lci/net/backend.hpp"
#include "lci/net/connected/caller.hpp"

namespace lci::net::connected {

// What the flags of a hello say.
struct hello_flags {
  static constexpr std::uint8_t WANTS_ANSWER = 1;  // I do not know yet that my hellos reach you
  static constexpr std::uint8_t LEAVES = 2;        // I disconnect, before we are connected
};

// Hello: to, from, rank, device, flags. Contact: what is known of a peer. Driver, derived from
// this, has:
//   NAME, id()                        of the network, for messages; of this fabric, for hellos
//   read_hellos()                     calls hear() for each
//   sender_of(said)                   null: a stranger, or not known yet
//   take_up(on, queues, said, who)    false: it is late, from a connection that was given up
//   is_about(on, said)                a peer that leaves means this connection
//   knows_us(on, said)                the peer knows our end of it
//   say(on, queues, flags)            false: it cannot be sent now
//   refuse(rank, queues)              says hello_flags::LEAVES where there is no connection
//   disconnect_called()               says hello_flags::LEAVES to for_each_called()
//   before_look(), hear_early(said)   what else there is to read; of a device that is not made
template <class Driver, class Queues, class Hello, class Contact>
class connector {
 public:
  using connection = typename Queues::connection;
  connector(const connector&) = delete;
  connector& operator=(const connector&) = delete;

  // Queues that can be called. They outlive the last look().
  void add_queues(Queues& q) {
    const std::lock_guard lock(mutex_);
    caller_.add_queues(q);
  }
  // Where posts say that they want a connection.
  connect_requests& requests() noexcept { return caller_.requests(); }
  attention& polls() noexcept { return caller_.polls(); }
  // use(rank) before a connection to that rank is ready: what was kept of it is used by no thread
  // that finds it ready. See fabric::deregister_region(). Set before there are queues.
  void before_ready(std::function<void(int)> use) { before_ready_ = std::move(use); }
  // Both sides know the connection. Shared.
  void make_ready(connection& on) noexcept {
    if (before_ready_) before_ready_(on.rank);
    on.move(connection::stage::ready);
  }
  // Reads hellos and repeats ours. Another thread that is inside already will do.
  void look() noexcept {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock) return;
    self().before_look();
    try {
      // A rank that leaves has left before an answer comes.
      if (!is_leaving_) caller_.start_pending();
      self().read_hellos();
      caller_.repeat([this](connection& on, Queues& q) { call(on, q); });
    } catch (const std::exception& problem) {
      caller_.put_off(problem);
    }
  }
  // A rank that was called and is not connected yet is told that we leave; one that does not learn
  // it will miss us. From now on no new rank is met, and one that calls is told, too.
  void leave() noexcept {
    const std::lock_guard lock(mutex_);
    is_leaving_ = true;
    try {
      self().disconnect_called();
    } catch (const std::exception& problem) {
      base::log::warn(Driver::NAME, "some peers will not be told that this rank leaves: %s",
                      problem.what());
    }
  }

 protected:
  // patience_ms: the caller's.
  explicit connector(address_book& book,
                     std::uint64_t patience_ms = caller<connection, Queues>::PATIENCE_MS)
      : book_(book), caller_(Driver::NAME, patience_ms) {}
  ~connector() = default;

  void before_look() noexcept {}
  void hear_early(const Hello&) noexcept {}
  void hear(const Hello& said) {
    if (said.to != self().id() || said.rank < 0 || said.rank >= book_.size() ||
        said.rank == book_.rank())
      return;
    Queues* const q = caller_.queues_at(said.device);
    // Not made yet; the peer will call again.
    if (q == nullptr) return self().hear_early(said);
    if (caller_.attempt(calls::step::answer, *q, said.rank, [&] { take(said, *q); })) return;
    if ((said.flags & hello_flags::LEAVES) == 0) turn_away_given_up(said.rank, *q);
  }

  using calls = caller<connection, Queues>;
  address_book& book_;
  calls caller_;      // under mutex_, but for what is shared
  std::mutex mutex_;  // guards what the driver has for hellos

 private:
  std::function<void(int)> before_ready_;
  bool is_leaving_ = false;  // under mutex_
  Driver& self() noexcept { return static_cast<Driver&>(*this); }
  void call(connection& on, Queues& q) {
    on.pace.wait_from(base::cpu_ticks());
    // One that throws counts, too: it waits as long as one that is not answered.
    on.pace.count();
    const std::uint8_t news = is_leaving_ ? hello_flags::LEAVES : hello_flags::WANTS_ANSWER;
    const bool is_calling = on.state() == connection::stage::calling;
    if (!self().say(on, q, is_calling ? news : 0)) on.pace.discount();
  }
  // A rank that was given up need not call for ever.
  void turn_away_given_up(int rank, Queues& q) noexcept {
    connection* const on = q.find(rank);
    try {
      if (on == nullptr) {
        if (caller_.is_given_up(q, rank)) self().refuse(rank, q);
      } else if (on->state() == connection::stage::failed) {
        self().say(*on, q, hello_flags::LEAVES);
      }
    } catch (const std::exception&) {  // nothing can be said to it
    }
  }
  void take(const Hello& said, Queues& q) {
    Contact* const who = self().sender_of(said);
    if (who == nullptr) return;
    connection* on = q.find(said.rank);
    if ((said.flags & hello_flags::LEAVES) != 0) {
      // The event queue says so, since it knows to whom. Nothing is on the way from there: the
      // other one was not connected.
      if (on != nullptr && self().is_about(*on, said)) on->move(connection::stage::left);
      return;
    }
    if (on == nullptr) {
      if (is_leaving_) return self().refuse(said.rank, q);
      on = &caller_.enter(q, said.rank);
    }
    if (!self().take_up(*on, q, said, *who)) return;
    if (self().knows_us(*on, said) && on->state() == connection::stage::calling) make_ready(*on);
    if ((said.flags & hello_flags::WANTS_ANSWER) != 0) call(*on, q);
  }
};

}  // namespace lci::net::connected
