#include "backends/ofi/event_queue.hpp"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "lci/base/log.hpp"

namespace lci::ofi {
namespace {

constexpr char NOBODY_ANSWERS[] =
    "the connection has ended before its target said that it is there";

std::uint64_t word_before(const std::byte* payload) noexcept {
  std::uint64_t out = 0;
  std::memcpy(&out, payload - sizeof(out), sizeof(out));
  return out;
}

}  // namespace

inline bool event_queue::receive(net::sink& to, const fi_cq_data_entry& what, place& into,
                                 std::size_t& count) noexcept {
  mem::packet* const packet = into.packet;
  const std::uint64_t all = head_ != 0 ? word_before(packet->payload()) : what.data;
  const std::size_t size = what.len - head_;
  const word said(all);
  connection* const from = find_checked(static_cast<int>(said.rank()));
  // Nothing comes from a rank that has ended, or was never met, or says too little.
  if (from == nullptr || from->was_end_reported || what.len < head_) [[unlikely]] {
    receives_.again(into);
    return true;
  }
  if (from->state() == stage::calling) [[unlikely]]
    meet(*from);
  if (!said.is(word::kind::message)) [[unlikely]] {
    if (said.is(word::kind::immediate)) {
      receives_.again(into);
      dealt_with(*from);
      to.on_immediate(from->rank, said.imm());
      ++count;
      return true;
    }
    from->hear(now_);
    count += take_ours(to, packet->payload(), size, *from);
    receives_.again(into);
    return true;
  }
  const net::arrival message{from->rank, said.imm(), packet->payload(), size, packet};
  if (deliver(to, message, into)) [[likely]] {
    dealt_with(*from);
    ++count;
    return true;
  }
  fi_cq_data_entry& again = put_back();
  again.op_context = static_cast<ticket*>(&into);
  again.flags = FI_RECV | FI_REMOTE_CQ_DATA;
  again.len = size + head_;
  again.data = all;
  return false;
}

// Of a write: its data is there.
inline void event_queue::immediate(net::sink& to, const fi_cq_data_entry& what) noexcept {
  const word said(what.data);
  connection* const from = find_checked(static_cast<int>(said.rank()));
  if (from == nullptr || from->was_end_reported) [[unlikely]]
    return;
  dealt_with(*from);
  to.on_immediate(from->rank, said.imm());
}

// Presents the oldest event, and counts it unless it was the backend's own: a thread that waits for
// something must not take a keepalive for it. False: it was deferred, and is the oldest still.
inline bool event_queue::present(net::sink& to, std::size_t& count) noexcept {
  // Taken out before the sink runs: a sink that polls again sees what comes after it, and may write
  // over it.
  const fi_cq_data_entry what = *first_++;
  if ((what.flags & FI_REMOTE_WRITE) != 0) {
    immediate(to, what);
    ++count;
    return true;
  }
  if (what.op_context == nullptr) [[unlikely]]
    return true;
  ticket& of = ticket_of(what.op_context);
  if (of.what == ticket::kind::receive) return receive(to, what, static_cast<place&>(of), count);
  work& done = static_cast<work&>(of);
  count += done.what != purpose::keepalive;
  finish(to, done, 0);
  return true;
}

// The next batch from the provider. False: it has nothing.
inline bool event_queue::fetch(net::sink& to) noexcept {
  const ssize_t n = fi_cq_read(queues_.cq.get(), next_batch(), BATCH);
  if (n > 0) [[likely]] {
    now_ = base::cpu_ticks();
    end_ += n;
    return true;
  }
  if (n == -FI_EAGAIN) {
    ++dry_;
    return false;
  }
  read_error(to);
  return false;
}

inline std::size_t event_queue::present_some(net::sink& to, std::size_t max) noexcept {
  std::size_t n = 0;
  // To read once more what has just been read to its end costs the provider's system calls and
  // keeps what has come waiting for them.
  bool may_have_more = true;
  while (n < max) {
    if (first_ == end_) {
      if (!may_have_more || !fetch(to)) break;
      may_have_more = end_ - first_ == BATCH;
    }
    if (!present(to, n)) [[unlikely]] {
      present_what_may_pass(to, max, n);
      break;
    }
  }
  if (!receives_.are_all_posted()) [[unlikely]]
    receives_.post_rest();
  return n;
}

// A completion, or a note that says nothing of the messages before it.
bool event_queue::may_pass(const fi_cq_data_entry& one) const noexcept {
  if ((one.flags & FI_REMOTE_WRITE) != 0 || one.op_context == nullptr) return false;
  const ticket& of = ticket_of(one.op_context);
  if (of.what == ticket::kind::work) return true;
  if (of.what != ticket::kind::receive || one.len < head_) return false;
  const std::byte* const payload = static_cast<const place&>(of).packet->payload();
  const word said(head_ != 0 ? word_before(payload) : one.data);
  note what;
  return said.is(word::kind::note) && decode(payload, one.len - head_, what) &&
         what.what != note::kind::disconnect;
}

// An error stays where it is: it would end a connection of which messages wait here.
LCI_COLD void event_queue::present_what_may_pass(net::sink& to, std::size_t max,
                                                 std::size_t& count) noexcept {
  const auto read = [&](fi_cq_data_entry* into, int most) {
    return fi_cq_read(queues_.cq.get(), into, static_cast<std::size_t>(most));
  };
  const auto passes = [this](const fi_cq_data_entry& one) { return may_pass(one); };
  present_behind(max, count, read, passes, [&](const fi_cq_data_entry& what) {
    ticket& of = ticket_of(what.op_context);
    std::size_t counted = 0;
    if (of.what == ticket::kind::receive) {
      receive(to, what, static_cast<place&>(of), counted);
    } else {
      work& done = static_cast<work&>(of);
      counted = done.what != purpose::keepalive;
      finish(to, done, 0);
    }
    return counted;
  });
}

std::size_t event_queue::poll(net::sink& to, std::size_t max) noexcept {
  return poll_once(to, max);
}

// The peer may send another one; it is told so now and then. One that is deferred is no sign of
// life: it comes back and back.
inline void event_queue::dealt_with(connection& from) noexcept {
  from.hear(now_);
  if (++from.taken - from.told < connection::WINDOW / 2) [[likely]]
    return;
  from.told = from.taken;
  note said;
  said.what = note::kind::credit;
  said.count = from.taken;
  tell(from.rank, said);
}

LCI_COLD void event_queue::read_error(net::sink& to) noexcept {
  fi_cq_err_entry what{};
  const ssize_t n = fi_cq_readerr(queues_.cq.get(), &what, 0);
  if (n != 1) return;  // another one, or none after all
  const std::string_view why = meaning_of(what.err);
  if (what.op_context == nullptr) {
    log::debug("ofi", "%s reports: %.*s", domain_.name.c_str(), static_cast<int>(why.size()),
               why.data());
    return;
  }
  ticket& of = ticket_of(what.op_context);
  if (of.what == ticket::kind::work) return finish(to, static_cast<work&>(of), what.err);
  if (what.err != FI_ECANCELED)
    log::warn("ofi", "a receive on %s failed: %.*s", domain_.name.c_str(),
              static_cast<int>(why.size()), why.data());
  receives_.again(static_cast<place&>(of));
}

// The provider is done with it.
void event_queue::finish(net::sink& to, work& one, int error) noexcept {
  connection& on = *one.on;
  if (one.is_answered && error == 0) on.hear(now_);
  std::string_view why = error == 0 ? "" : meaning_of(error);
  if (error != 0) [[unlikely]] {
    break_off(to, on, error);
  } else if (one.is_write && domain_.how == delivery::asked && one.flush == 0 && !one.is_told)
      [[unlikely]] {
    if (!on.was_end_reported) return flush(one);
    why = NOBODY_ANSWERS;
  }
  if (on.leave(one)) [[likely]]
    tell_end(to, on, one, why);
  else
    give_back_late(one);
  works_.put(&one);
}

// What it held is given back, and the user that waits for it is told.
void event_queue::tell_end(net::sink& to, connection& on, const holding& one,
                           std::string_view error) noexcept {
  if (one.packet != nullptr) mem::release_packet(arena_, one.packet);
  if (one.key != 0) memory_.remove(one.key);
  tell_user(to, on, one, error);
}

void event_queue::tell_user(net::sink& to, connection& on, const holding& one,
                            std::string_view error) noexcept {
  if (one.what == purpose::keepalive) on.is_asked = false;
  if (one.what != purpose::user) return;
  if (one.context != nullptr) {
    if (error.empty())
      to.on_complete(one.context);
    else
      to.on_error(on.rank, one.context, error);
  }
  // Last: a thread that sees that nothing is open may take all of this down.
  end_user();
}

// The write is out, but only its target knows when it is there.
LCI_COLD void event_queue::flush(work& one) noexcept {
  one.flush = ++one.on->flushes;
  note said;
  said.what = note::kind::flush;
  said.count = one.flush;
  tell(one.on->rank, said);
}

LCI_COLD void event_queue::flushed(net::sink& to, connection& from, std::uint64_t count) noexcept {
  while (work* const one = from.take_flushed(count)) {
    tell_end(to, from, *one, {});
    works_.put(one);
  }
}

// A message from the peer's fabric to this one. False: it only asks whether we are there.
LCI_COLD bool event_queue::take_ours(net::sink& to, const std::byte* data, std::size_t size,
                                     connection& from) noexcept {
  note said;
  if (!decode(data, size, said)) return false;
  take_note(to, said, from);
  return said.what != note::kind::keepalive;
}

void event_queue::take_note(net::sink& to, const note& what, connection& from) noexcept {
  const net::remote_key name{what.slot, what.generation};
  switch (what.what) {
    case note::kind::credit:
      return from.set_consumed(what.count);
    case note::kind::ask: {
      note answer;
      // A peer that would not be told of its end must not know it, and asks again.
      if (!memory_.tell(name, from.rank, answer)) answer.what = note::kind::ask_again;
      return tell(from.rank, answer);
    }
    case note::kind::row:
    case note::kind::no_row:
    case note::kind::ask_again:
      return keys_.settle(from.rank, what, index());
    case note::kind::withdrawn:
      return keys_.withdraw(from.rank, name);
    case note::kind::flush: {
      note answer = what;
      answer.what = note::kind::flushed;
      return tell(from.rank, answer);
    }
    case note::kind::flushed:
      return flushed(to, from, what.count);
    case note::kind::disconnect:
      if (what.count != 0) return fail(to, from, "the connection has failed at the peer");
      return end(to, from, stage::left, net::connected::DISCONNECTED);
    case note::kind::keepalive:
      return;
  }
}

}  // namespace lci::ofi
