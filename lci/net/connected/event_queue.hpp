// The polling of a device: what the network reports becomes calls of the sink, and now and then a
// poll looks for ranks that are to be called, have ended or are silent. Base of a backend's
// `event_queue`, on top of its `device_queues`. Callers: device. Threads: one inside at a time,
// which may come in again; give_up() of the queues shared. Always true: what was fetched and is not
// presented yet waits in order; the end of a peer is reported once, after what it sent and before
// what fails by it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>

#include "lci/base/log.hpp"
#include "lci/base/owned.hpp"
#include "lci/base/platform.hpp"
#include "lci/mem/packet_pool.hpp"
#include "lci/net/backend.hpp"
#include "lci/net/connected/null_sink.hpp"
#include "lci/net/connected/pending_connects.hpp"

namespace lci::net::connected {

inline constexpr char DISCONNECTED[] = "the peer left";

// Queues: derived from device_queues, with receives_, whose places have again() and replace(), and
// send_note(rank, note), false: not now. Event: as the network reports it. Connector: polls(),
// look(), make_ready(on). Keys: a key_cache. Driver, derived from this, has:
//   present_some(to, max)       fetches and presents; answers how many events counted
//   stop(on)                    nothing more is to be sent there, or come
//   drop_posted(to, on, reason) what is posted there and will not end fails
//   look(to), look_at(to, on)   what else there is to look at; at a connection that has not ended.
//                               One that is called while its rank is known to have failed ends, but
//                               not before what is under way from there is read: the peer may have
//                               been ready
//   say_disconnect(on, says_so) posts it; says_so: false is only to know when all before it is out
template <class Driver, class Queues, class Event, class Connector, class Keys>
class event_queue : public Queues {
 public:
  using connection = typename Queues::connection;
  using stage = typename connection::stage;

  // queues: what those are made of.
  template <class... For>
  event_queue(Connector& calls, Keys& keys, For&&... queues)
      : Queues(std::forward<For>(queues)...),
        ring_size_(std::size_t{MOST_NESTED + BATCH} + this->read_ahead()),
        ring_(std::make_unique_for_overwrite<Event[]>(ring_size_)),
        calls_(calls),
        keys_(keys),
        work_(calls.polls()) {}
  Keys& keys() noexcept { return keys_; }
  // The device ends.
  void end_questions() noexcept { keys_.end_of(this->index()); }
  // The next poll may come from another thread at once.
  void leave_polling() noexcept { polling_.disown(); }
  // Its connection to that rank ends, and the next look deals with that, if there is one.
  void let_go(int rank, bool has_failed) noexcept {
    if (connection* const on = this->find(rank); on != nullptr)
      on->move(has_failed ? stage::failed : stage::left);
  }
  // Instead of LEAVE_MS, before anything is sent: how long a rank that leaves waits for others.
  void set_leave_ms(std::uint64_t ms) noexcept { leave_ms_ = ms; }
  // Waits, not for long, until what was posted is out; behind it each peer is told that this rank
  // disconnects, unless it is not to be said. Once more: only peers that have become ready since.
  void leave(bool says_so) noexcept {
    sink& listener = null_sink();
    const std::uint64_t deadline = base::cpu_ticks() + leave_ms() * base::ticks_per_ms();
    // Polls go on meeting peers, so all are asked again after each.
    while (!is_all_out(says_so) && base::cpu_ticks() < deadline) self().poll(listener, BATCH);
    this->for_each([&](connection& on) {
      if (is_out(on, says_so)) return;
      base::log::info("net", "rank %d does not read: the last messages to it may be lost", on.rank);
      on.our_end = connection::parting::over;
    });
  }

 protected:
  ~event_queue() = default;

  static constexpr int BATCH = 32;
  // Polls inside of polls.
  static constexpr int MOST_NESTED = base::detail::thread_record::MAX_INSIDE;
  // Polls between two looks at what is not about messages.
  static constexpr std::uint32_t LOOK_EVERY = 64;

  // device::poll(), inlined into the driver's.
  [[gnu::always_inline]] std::size_t poll_once(sink& to, std::size_t max) noexcept {
    const base::owned_guard guard(polling_);
    if (!guard) return 0;
    ++nesting_;
    // The sink that polls again has done with the bytes of its message. Its packet may have become
    // the program's already; its place must not be missing for as long as a handler takes.
    if (presenting_ != nullptr) [[unlikely]]
      this->receives_.replace(*std::exchange(presenting_, nullptr));
    if (++polls_ % LOOK_EVERY == 0 || work_.is_due() || keys_.is_open(this->index())) [[unlikely]]
      look_after(to);
    if (this->due_notices_.is_due()) [[unlikely]]
      self().serve_pending(to);
    std::size_t n = self().present_some(to, max);
    if (!this->self_.is_empty()) [[unlikely]]
      n += this->self_.poll(to, max);
    --nesting_;
    return n;
  }
  // Where the next batch goes. In front of it there is a place for each event that is presented
  // now: it may be deferred and come back.
  Event* next_batch() noexcept { return first_ = end_ = ring_.get() + nesting_ - 1; }
  // A message. False: it was deferred, and what it came in is still in use.
  [[gnu::always_inline]] bool deliver(sink& to, const arrival& message,
                                      typename Queues::place& into) noexcept {
    presenting_ = &into;
    const verdict answer = to.on_message(message);
    // The sink has polled again: that poll has taken the packet out of its place.
    if (presenting_ != &into) [[unlikely]] {
      if (answer != verdict::kept) mem::release_packet(this->arena_, message.packet);
      return true;
    }
    presenting_ = nullptr;
    switch (answer) {
      case verdict::taken:
        this->receives_.again(into);
        return true;
      case verdict::kept:
        this->receives_.replace(into);
        return true;
      case verdict::deferred:
        break;
    }
    return false;
  }
  // For the event of a message that was deferred: before what a nested poll has fetched and left,
  // or was refused, since that came later.
  Event& put_back() noexcept { return *--first_ = {}; }

  // The oldest event is a message that was deferred, perhaps for want of what only completions
  // behind it give back. Those that may_pass are presented, and more is read: read(to, most)
  // answers how much. present(one) answers whether it counts.
  template <class Read, class MayPass, class Present>
  LCI_COLD void present_behind(std::size_t max, std::size_t& count, Read&& read, MayPass&& may_pass,
                               Present&& present) noexcept {
    if (Event* const front = ring_.get() + nesting_ - 1; front < first_) {
      end_ = std::move(first_, end_, front);
      first_ = front;
    }
    const std::ptrdiff_t room = ring_.get() + ring_size_ - end_;
    if (room != 0) {
      if (const auto n = read(end_, std::min<int>(static_cast<int>(room), BATCH)); n > 0) end_ += n;
    }
    while (count < max) {
      // From the front each time: the sink may have polled again.
      Event* const at = std::find_if(first_, end_, may_pass);
      if (at == end_) return;
      const Event one = *at;
      end_ = std::move(at + 1, end_, at);
      count += present(one);
    }
  }

  // Something has come over a connection that is not known to be ready: the sender knows our
  // end of it, and may have said so in a hello that was lost or comes later.
  LCI_COLD void meet(connection& on) noexcept { calls_.make_ready(on); }
  // The connection is of no use any more, because the peer has disconnected or because it failed.
  void end(sink& to, connection& on, stage how, std::string_view reason) noexcept {
    on.move(how);
    if (on.was_end_reported) return;
    on.was_end_reported = true;
    self().stop(on);
    keys_.forget(on.rank);
    // A rank that was given up before there was this connection has failed already.
    if (!this->unreached().is_told(on.rank)) to.on_peer_ended(on.rank, how == stage::left, reason);
    self().drop_posted(to, on, reason);
  }
  void fail(sink& to, connection& on, std::string_view reason) noexcept {
    end(to, on, stage::failed, reason);
  }
  void stop(connection&) noexcept {}
  LCI_COLD void serve_pending(sink& to) noexcept {
    this->due_notices_.serve(to, [this](int rank, const typename Queues::note& what) {
      return this->send_note(rank, what);
    });
  }
  void look(sink&) noexcept {}
  LCI_COLD void look_at_all(sink& to) noexcept {
    this->for_each([&](connection& on) {
      if (on.was_end_reported) return;
      if (on.state() <= stage::ready) return self().look_at(to, on);
      // Before there was a connection.
      const bool has_left = on.state() == stage::left;
      end(to, on, on.state(), has_left ? DISCONNECTED : "no connection could be made");
    });
  }
  // Ranks that cannot be met, each once. What is posted to them is refused from then on.
  LCI_COLD void tell_unreachable(sink& to) noexcept {
    this->unreached().serve([&](int rank, const char* why) {
      if (connection* const on = this->find(rank); on != nullptr) {
        if (on->state() == stage::calling) fail(to, *on, why);
        return;
      }
      this->unreached().set_told(rank);
      keys_.forget(rank);
      to.on_peer_ended(rank, false, why);
    });
  }

  std::uint64_t leave_ms() const noexcept { return leave_ms_ != 0 ? leave_ms_ : Driver::LEAVE_MS; }

  const std::size_t ring_size_;
  const std::unique_ptr<Event[]> ring_;
  Connector& calls_;
  Keys& keys_;
  const attention& work_;
  Event* first_ = ring_.get();  // that is not presented yet
  Event* end_ = ring_.get();
  std::uint32_t polls_ = 0;
  std::uint64_t now_ = 0;  // ticks, read now and then

 private:
  Driver& self() noexcept { return static_cast<Driver&>(*this); }
  // Whether nothing is to be waited for there; says that we leave if it was not said.
  bool is_out(connection& on, bool says_so) noexcept {
    using parting = typename connection::parting;
    if (on.state() != stage::ready || on.our_end == parting::over) return true;
    if (on.our_end == parting::none) {
      // Behind the notes that wait, which the peer would not take any more.
      if (this->due_notices_.is_waiting(on.rank) || !self().say_disconnect(on, says_so))
        return false;
      on.our_end = parting::said;
    }
    return on.is_idle();
  }
  bool is_all_out(bool says_so) noexcept {
    bool out = true;
    this->for_each([&](connection& on) { out &= is_out(on, says_so); });
    return out;
  }
  [[gnu::noinline]] void look_after(sink& to) noexcept {
    now_ = base::cpu_ticks();
    calls_.look();
    keys_.serve(self());
    self().look(to);
    if (this->unreached().has_news()) [[unlikely]]
      tell_unreachable(to);
    if (now_ < next_look_) return;
    next_look_ = now_ + Driver::LOOK_MS * base::ticks_per_ms();
    self().look_at_all(to);
  }

  base::owned polling_;
  int nesting_ = 0;
  typename Queues::place* presenting_ =
      nullptr;  // of the message that a sink looks at; null once it polls
  std::uint64_t next_look_ = 0;
  std::uint64_t leave_ms_ = 0;  // 0: as long as usual
};

}  // namespace lci::net::connected
