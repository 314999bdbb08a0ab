// The half of a port that polls: what the provider reports becomes calls of the sink.
#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "backends/ofi/fabric.hpp"
#include "backends/ofi/port.hpp"
#include "lci/base/log.hpp"

namespace lci::ofi {
namespace {

// Polls between two looks at what is not about messages.
constexpr std::uint32_t LOOK_EVERY = 64;
constexpr std::uint64_t LINK_LOOK_MS = 100;  // between two looks at who is silent or missed
constexpr std::uint64_t SILENCE_MS = 1000;   // after which who cannot be watched is knocked at
// Polls without news after which all has come that a missed peer sent.
constexpr std::uint32_t DRY_POLLS = 16;
// Where polls never come to that: others send without end, or a message is deferred for want of
// what only this end gives back. As many polls and as long.
constexpr std::uint32_t STUCK_POLLS = 1024;
constexpr std::uint64_t STUCK_MS = 500;

std::uint64_t word_before(const std::byte* payload) noexcept {
  std::uint64_t out = 0;
  std::memcpy(&out, payload - sizeof(out), sizeof(out));
  return out;
}

}  // namespace

inline bool port::receive(net::sink& to, const fi_cq_data_entry& what, receives::place& into,
                          std::size_t& count) noexcept {
  mem::packet* const packet = into.packet;
  const std::uint64_t all = head_ != 0 ? word_before(packet->payload()) : what.data;
  const std::size_t size = what.len - head_;
  const word said(all);
  link* const from = find_checked(static_cast<int>(said.rank()));
  // Nothing comes from who is gone, or was never met, or says too little.
  if (from == nullptr || from->was_gone_said || what.len < head_) [[unlikely]] {
    receives_.again(into);
    return true;
  }
  // Who sends to us has heard our name: it may have said so in a hello that comes later.
  if (from->state() == link::stage::calling) [[unlikely]]
    from->move(link::stage::ready);
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
  presenting_ = &into;
  const net::verdict answer = to.on_message(message);
  // The sink has polled again: that poll has taken the packet out of its place.
  if (presenting_ != &into) [[unlikely]] {
    if (answer != net::verdict::kept) packet->pool->put(packet);
    dealt_with(*from);
    ++count;
    return true;
  }
  presenting_ = nullptr;
  count += answer != net::verdict::deferred;
  switch (answer) {
    case net::verdict::taken:
      receives_.again(into);
      dealt_with(*from);
      return true;
    case net::verdict::kept:
      receives_.replace(into);
      dealt_with(*from);
      return true;
    case net::verdict::deferred:
      break;
  }
  // Before what a nested poll has fetched and left, or was refused: that came later.
  fi_cq_data_entry& again = *--first_;
  again = {};
  again.op_context = static_cast<ticket*>(&into);
  again.flags = FI_RECV | FI_REMOTE_CQ_DATA;
  again.len = size + head_;
  again.data = all;
  return false;
}

// Of a write: its data is there.
inline void port::immediate(net::sink& to, const fi_cq_data_entry& what) noexcept {
  const word said(what.data);
  link* const from = find_checked(static_cast<int>(said.rank()));
  if (from == nullptr || from->was_gone_said) [[unlikely]]
    return;
  dealt_with(*from);
  to.on_immediate(from->rank, said.imm());
}

// Presents the oldest event, and counts it unless it was the backend's own: who waits for something
// to happen is not to take a keepalive for it. False: it was deferred, and is the oldest still.
inline bool port::present(net::sink& to, std::size_t& count) noexcept {
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
  if (of.what == ticket::kind::receive)
    return receive(to, what, static_cast<receives::place&>(of), count);
  work& done = static_cast<work&>(of);
  count += done.what != purpose::knock;
  finish(to, done, 0);
  return true;
}

// The next batch from the provider. False: it has nothing.
inline bool port::fetch(net::sink& to) noexcept {
  first_ = end_ = ring_ + nesting_ - 1;
  const ssize_t n = fi_cq_read(queues_.cq.get(), first_, BATCH);
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

std::size_t port::poll(net::sink& to, std::size_t max) noexcept {
  const base::owned_guard guard(polling_);
  if (!guard) return 0;
  ++nesting_;
  // The sink that polls again has done with the bytes of its message. Its packet may have become
  // the program's already; its place must not be missing for as long as a handler takes.
  if (presenting_ != nullptr) [[unlikely]]
    receives_.replace(*std::exchange(presenting_, nullptr));
  if (++polls_ % LOOK_EVERY == 0 || fabric_.calls().has_work() || fabric_.keys().has_work())
      [[unlikely]]
    look_after(to);
  if (pending_errors_.is_due()) [[unlikely]]
    serve_pending_errors(to);
  std::size_t n = 0;
  // To read once more what has just been read to its end costs the provider's system calls and
  // keeps what has come waiting for them.
  bool may_have_more = true;
  while (n < max) {
    if (first_ == end_) {
      if (!may_have_more || !fetch(to)) break;
      may_have_more = end_ - first_ == BATCH;
    }
    if (!present(to, n)) break;
  }
  if (!receives_.are_all_posted()) [[unlikely]]
    receives_.post_rest();
  if (!self_.is_empty()) [[unlikely]]
    n += self_.poll(to, max);
  --nesting_;
  return n;
}

// The peer may send another one; it hears of that now and then. One that is deferred is no sign of
// life: it comes back and back.
inline void port::dealt_with(link& from) noexcept {
  from.hear(now_);
  if (++from.taken - from.told < link::WINDOW / 2) [[likely]]
    return;
  from.told = from.taken;
  note said;
  said.what = note::kind::credit;
  said.count = from.taken;
  tell(from.rank, said);
}

LCI_COLD void port::read_error(net::sink& to) noexcept {
  fi_cq_err_entry what{};
  const ssize_t n = fi_cq_readerr(queues_.cq.get(), &what, 0);
  if (n != 1) return;  // another one, or none after all
  const std::string_view why = meaning_of(what.err);
  if (what.op_context == nullptr) {
    log::debug("ofi", "%s reports: %.*s", fabric_.domain().name.c_str(),
               static_cast<int>(why.size()), why.data());
    return;
  }
  ticket& of = ticket_of(what.op_context);
  if (of.what == ticket::kind::work) return finish(to, static_cast<work&>(of), what.err);
  if (what.err != FI_ECANCELED)
    log::warn("ofi", "a receive on %s failed: %.*s", fabric_.domain().name.c_str(),
              static_cast<int>(why.size()), why.data());
  receives_.again(static_cast<receives::place&>(of));
}

// The provider is done with it.
void port::finish(net::sink& to, work& one, int error) noexcept {
  link& on = *one.on;
  if (one.is_answered && error == 0) on.hear(now_);
  if (error != 0) [[unlikely]]
    end(to, on, link::stage::failed, meaning_of(error));
  else if (one.is_write && fabric_.how() == delivery::asked && one.flush == 0 && !one.is_told)
      [[unlikely]]
    return flush(one);
  if (on.leave(one)) tell_end(to, one, error == 0 ? "" : meaning_of(error));
  works_.put(&one);
}

// What it held is given back, and who waits for it hears.
void port::tell_end(net::sink& to, work& one, std::string_view error) noexcept {
  if (one.packet != nullptr) mem::release_packet(*fabric_.config().arena, one.packet);
  if (one.key != 0) fabric_.memory().remove(one.key);
  one.packet = nullptr;
  one.key = 0;
  if (one.what == purpose::knock) one.on->is_knocking = false;
  if (one.what != purpose::user) return;
  if (one.context != nullptr) {
    if (error.empty())
      to.on_complete(one.context);
    else
      to.on_error(one.on->rank, one.context, error);
  }
  // Last: who sees that nothing is open may take all of this down.
  end_user();
}

// The write is out, but only its target knows when it is there.
LCI_COLD void port::flush(work& one) noexcept {
  one.flush = ++one.on->flushes;
  note said;
  said.what = note::kind::flush;
  said.count = one.flush;
  tell(one.on->rank, said);
}

LCI_COLD void port::flushed(net::sink& to, link& from, std::uint64_t count) noexcept {
  while (work* const one = from.take_flushed(count)) {
    tell_end(to, *one, {});
    works_.put(one);
  }
}

// Of no use any more, because the peer has left or because it failed.
void port::end(net::sink& to, link& on, link::stage how, std::string_view reason) noexcept {
  on.move(how);
  if (on.was_gone_said) return;
  on.was_gone_said = true;
  fabric_.keys().forget(on.rank);
  to.on_peer_gone(on.rank, how == link::stage::left, reason);
  // What is posted there will not end, or nobody knows when.
  while (work* const one = on.take_untold()) {
    tell_end(to, *one, reason);
    if (one->flush == 0) continue;
    // The provider was done with it.
    on.leave(*one);
    works_.put(one);
  }
}

// A message from the peer's fabric to this one. False: it only asks whether we are there.
LCI_COLD bool port::take_ours(net::sink& to, const std::byte* data, std::size_t size,
                              link& from) noexcept {
  note said;
  if (!decode(data, size, said)) return false;
  take_note(to, said, from);
  return said.what != note::kind::knock;
}

void port::take_note(net::sink& to, const note& what, link& from) noexcept {
  const net::remote_key name{what.slot, what.generation};
  switch (what.what) {
    case note::kind::credit:
      return from.set_consumed(what.count);
    case note::kind::ask: {
      note answer;
      // Who would not hear of its end must not know it, and asks again.
      if (!fabric_.memory().tell(name, {from.rank, index_}, answer))
        answer.what = note::kind::withdrawn;
      return tell(from.rank, answer);
    }
    case note::kind::row:
    case note::kind::no_row:
      return fabric_.keys().settle(from.rank, what);
    case note::kind::withdrawn:
      return fabric_.keys().drop(from.rank, name);
    case note::kind::flush: {
      note answer = what;
      answer.what = note::kind::flushed;
      return tell(from.rank, answer);
    }
    case note::kind::flushed:
      return flushed(to, from, what.count);
    case note::kind::farewell:
      return end(to, from, link::stage::left, "the peer took leave");
    case note::kind::knock:
      return;
  }
}

void port::serve_pending_errors(net::sink& to) noexcept {
  pending_errors_.serve(to, [&](int rank, const note& what) { tell(rank, what); });
}

void port::look_after(net::sink& to) noexcept {
  now_ = base::cpu_ticks();
  fabric_.calls().look();
  if (fabric_.keys().has_work()) fabric_.keys().serve(*this);
  if (unreachable_.has_news()) [[unlikely]]
    tell_unreachable(to);
  if (now_ < next_look_) return;
  next_look_ = now_ + LINK_LOOK_MS * base::ticks_per_ms();
  look_at_links(to);
}

// Ranks that cannot be met, each once. What is posted to them is refused from then on.
LCI_COLD void port::tell_unreachable(net::sink& to) noexcept {
  unreachable_.serve([&](int rank, const char* why) {
    if (link* const on = find(rank); on != nullptr) {
      if (on->state() == link::stage::calling) end(to, *on, link::stage::failed, why);
      return;
    }
    unreachable_.set_told(rank);
    fabric_.keys().forget(rank);
    to.on_peer_gone(rank, false, why);
  });
}

void port::look_at_links(net::sink& to) noexcept {
  for (const std::atomic<link*>& one : links_) {
    link* const on = one.load(std::memory_order_acquire);  // edge ofi.link
    if (on == nullptr || on->was_gone_said) continue;
    if (on->state() == link::stage::left) {
      end(to, *on, link::stage::left, "the peer took leave");
    } else if (on->state() == link::stage::failed) {
      end(to, *on, link::stage::failed, "no connection could be made");
    } else if (on->refused() != 0) {
      end(to, *on, link::stage::failed, meaning_of(on->refused()));
    } else if (const char* const why =
                   missed_[static_cast<std::size_t>(on->rank)].load(std::memory_order_acquire)) {
      // edge ofi.missed: partner is miss().
      if (is_read_out(*on)) end(to, *on, link::stage::failed, why);
    } else if (on->state() == link::stage::ready && !fabric_.calls().is_watched(on->rank)) {
      knock(*on);
    }
  }
}

// Of a peer that is missed: what it sent comes before its end.
bool port::is_read_out(link& on) const noexcept {
  if (on.missed_ticks == 0) {
    on.missed_ticks = now_;
    on.missed_polls = polls_;
    on.missed_dry = dry_;
    return false;
  }
  return dry_ - on.missed_dry > DRY_POLLS ||
         (polls_ - on.missed_polls > STUCK_POLLS &&
          now_ > on.missed_ticks + STUCK_MS * base::ticks_per_ms());
}

// Nothing else tells of a peer to which nothing is sent.
void port::knock(link& on) noexcept {
  if (on.knocked_ticks == 0) on.knocked_ticks = now_;
  const std::uint64_t last = std::max(on.knocked_ticks, on.heard_ticks());
  if (on.is_knocking || now_ < last + SILENCE_MS * base::ticks_per_ms()) return;
  on.knocked_ticks = now_;
  mem::packet* const packet = packets_.get();
  work* const one = packet != nullptr ? new_work(on, purpose::knock) : nullptr;
  if (one == nullptr) {
    if (packet != nullptr) packets_.put(packet);
    return;
  }
  new (packet->payload()) note;  // a knock
  on.is_knocking = send_packet(on, word::make(fabric_.rank(), word::kind::note, 0), *packet,
                               sizeof(note), *one) == errorcode_t::done;
  if (!on.is_knocking) packets_.put(packet);
}

}  // namespace lci::ofi
