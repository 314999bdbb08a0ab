// How connections end: which peers are silent, missed or have left, what users are told of what is
// posted there, and what the peer is told.
#include <algorithm>
#include <new>

#include "backends/ofi/event_queue.hpp"

namespace lci::ofi {
namespace {

constexpr std::uint64_t SILENCE_MS = 1000;  // after which a peer that cannot be watched is asked
// Polls without news after which all has come that a missed peer sent.
constexpr std::uint32_t DRY_POLLS = 16;
// Where polls never come to that: others send without end, or a message is deferred for want of
// what only this end gives back. As many polls and as long.
constexpr std::uint32_t STUCK_POLLS = 1024;
constexpr std::uint64_t STUCK_MS = 500;
constexpr char UNFINISHED[] = "the connection has ended, and the provider did not say how this did";

}  // namespace

// What is posted there will not end, or it is not known when. What it holds is the provider's until
// then: it may read a packet, or answer into a registration.
void event_queue::drop(net::sink& to, connection& on, std::string_view reason, bool all) noexcept {
  while (const auto one = on.take_untold(all)) {
    if (one->done == nullptr) {
      tell_user(to, on, one->held, reason);
      continue;
    }
    works_.put(one->done);
    tell_end(to, on, one->held, reason);
  }
}

// A peer that lives may go on answering reads, and the provider may go on reading what is to be
// written. So users learn of those when the provider is done, since they may free the memory then.
void event_queue::drop_posted(net::sink& to, connection& on, std::string_view reason) noexcept {
  drop(to, on, reason, false);
  if (on.is_idle()) return;
  on.ended = this_moment();
  ++unfinished_;
}

// Providers may never say it. A peer that leaves answers for as long as it waits for others, on
// each of the two ways that it goes round its devices.
void event_queue::drop_late(net::sink& to) noexcept {
  if (unfinished_ == 0) return;
  for_each([&](connection& on) {
    if (on.ended.ticks == 0) return;
    const bool is_late =
        now_ > on.ended.ticks + 2 * leave_ms() * base::ticks_per_ms() && is_read_out(on.ended);
    if (!is_late && !on.is_idle()) return;
    // First: users may poll again.
    on.ended.ticks = 0;
    --unfinished_;
    drop(to, on, UNFINISHED, true);
  });
}

// By what the provider says here alone: the peer, whose process may live, would go on waiting for
// what is dropped here.
LCI_COLD void event_queue::break_off(net::sink& to, connection& on, int error) noexcept {
  if (!on.was_end_reported) {
    on.broken_ticks = base::cpu_ticks();
    ++broken_;
  }
  fail(to, on, meaning_of(error));
  tell_broken();
}

void event_queue::look(net::sink& to) noexcept {
  tell_broken();
  drop_late(to);
}

// A provider may have to connect once more for that, and a peer that has died need not be told.
void event_queue::tell_broken() noexcept {
  if (broken_ == 0) return;
  const std::uint64_t now = base::cpu_ticks();
  for_each([&](connection& on) {
    if (on.broken_ticks == 0) return;
    const bool is_late = now > on.broken_ticks + leave_ms() * base::ticks_per_ms();
    if (!is_late && why_missed(on) == nullptr && !say_failed(on)) return;
    on.broken_ticks = 0;
    --broken_;
  });
}

void event_queue::look_at(net::sink& to, connection& on) noexcept {
  const std::string_view why = why_over(on);
  if (!why.empty()) {
    if (on.missed.ticks == 0) on.missed = this_moment();
    if (!is_read_out(on.missed)) return;
    if (on.refused() != 0) return break_off(to, on, on.refused());
    fail(to, on, why);
  } else if (on.state() == stage::ready && !calls_.is_watched(on.rank)) {
    keep_alive(on);
  }
}

// Why the connection is to end; empty: it is not.
std::string_view event_queue::why_over(const connection& on) const noexcept {
  if (on.refused() != 0) return meaning_of(on.refused());
  if (const char* const why = why_missed(on); why != nullptr) return why;
  // Others know that the rank has failed. Its connection ends also if it turns out to be ready.
  const bool is_called = on.state() == stage::calling;
  return on.missed.ticks != 0 || (is_called && on.is_known_failed()) ? "the rank has failed" : "";
}

// What has come, and what is complete, is told before the end.
bool event_queue::is_read_out(const connection::moment& since) const noexcept {
  return dry_ - since.dry > DRY_POLLS || (polls_ - since.polls > STUCK_POLLS &&
                                          now_ > since.ticks + STUCK_MS * base::ticks_per_ms());
}

// Nothing else reports the end of a peer to which nothing is sent.
void event_queue::keep_alive(connection& on) noexcept {
  if (on.keepalive_ticks == 0) on.keepalive_ticks = now_;
  const std::uint64_t last = std::max(on.keepalive_ticks, on.heard_ticks());
  if (on.is_asked || now_ < last + SILENCE_MS * base::ticks_per_ms()) return;
  on.keepalive_ticks = now_;
  mem::packet* const packet = packets_.get();
  work* const one = packet != nullptr ? new_work(on, purpose::keepalive) : nullptr;
  if (one == nullptr) {
    if (packet != nullptr) packets_.put(packet);
    return;
  }
  new (packet->payload()) note;  // a keepalive
  on.is_asked = send_packet(on, word::make(me_, word::kind::note, 0), *packet, sizeof(note),
                            *one) == errorcode_t::done;
  if (!on.is_asked) packets_.put(packet);
}

// As a packet: its completion says that all before it was sent.
bool event_queue::say_disconnect(connection& on, bool says_so) noexcept {
  if (says_so && must_wait_for_writes(on)) return false;
  note last;
  if (says_so) last.what = note::kind::disconnect;
  return send_copy(on, word::make(me_, word::kind::note, 0), &last, sizeof(last), nullptr, 0) ==
         errorcode_t::done;
}

// Where the provider may let the note pass writes, their target would end the connection and be
// told of none. A peer that does not take them in time is told at least that we leave.
bool event_queue::must_wait_for_writes(connection& on) const noexcept {
  if (keeps_write_order(*domain_.info) || !on.has_writes()) return false;
  const std::uint64_t now = base::cpu_ticks();
  if (on.leaving_ticks == 0) on.leaving_ticks = now;
  return now < on.leaving_ticks + leave_ms() / 2 * base::ticks_per_ms();
}

}  // namespace lci::ofi
