#include "worker.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <thread>

#include "tests/interface/world.hpp"

namespace stress {

namespace {
constexpr std::size_t MOST_IN_FLIGHT = 24;
constexpr std::size_t MOST_RECEIVES = 16;  // of each origin

// What an active message says is in its tag, so that it may be empty: what it is, in the highest
// byte, and the number of the action that is meant.
enum class word : std::uint64_t { narrow = 0, note = 1, farewell = 2, wide = 0xa5 };
constexpr int WORD_SHIFT = 56;
lci::tag_t tag_of(word w, std::uint64_t number) {
  return static_cast<std::uint64_t>(w) << WORD_SHIFT | number;
}

// Sends with a key of their own.
constexpr lci::tag_t OWN_KEY = lci::tag_t{1} << 32;
lci::tag_t key_of(const action& a) {
  return shares_key(a) ? static_cast<lci::tag_t>(a.thread) : OWN_KEY | a.number;
}
}  // namespace

// One operation under way with all that it needs to live until it completes.
struct worker::flight {
  enum class step { receive, outgoing, get, note };
  step at;
  const action* what;  // null for a note
  int peer;
  std::size_t* under_way;  // where it is counted
  std::vector<char> data;
  lci::mr_t mr;
  ~flight() {
    if (!mr.is_empty()) lci::deregister_memory(&mr);
  }
};

worker::worker(site& shared, int thread, lci::device_t device)
    : site_(shared),
      thread_(thread),
      device_(device),
      actions_(shared.work.of(shared.rank, thread)),
      done_(lci::alloc_cq()),
      in_flight_(static_cast<std::size_t>(shared.work.dimensions().ranks)),
      streams_(in_flight_.size()) {
  plan_receives();
}

worker::~worker() { lci::free_comp(&done_); }

void worker::run() {
  while (!site_.is_over.load(std::memory_order_acquire)) {
    try {
      step();
    } catch (const lci::peer_failure_error& error) {
      site_.lose(error.failed_rank(), error.what());
    }
  }
}

void worker::step() {
  post_receives();
  if (next_ < site_.work.per_thread() && under_way() < MOST_IN_FLIGHT) start_next();
  if (!lci::progress_x().device(device_)().is_done()) {
    site_.check_patience();
    // With more threads than cores somebody else needs the core to answer.
    std::this_thread::yield();
  }
  take_completions();
  take_messages();
  if (!is_idle()) return;
  if (!is_through_) {
    is_through_ = true;
    is_last_ = site_.is_last_to_end();
    if (is_last_) bid_farewell();
  } else if (is_last_ && site_.has_everything()) {
    site_.is_over.store(true, std::memory_order_release);
  }
}

// What a lost rank has left open is not waited for.
std::size_t worker::under_way() const {
  std::size_t sum = 0;
  for (std::size_t peer = 0; peer < in_flight_.size(); ++peer) {
    if (site_.is_alive(static_cast<int>(peer))) sum += in_flight_[peer];
  }
  return sum;
}

// Nothing to start, nothing under way and nothing to receive.
bool worker::is_idle() const {
  if (next_ < site_.work.per_thread() || under_way() != 0) return false;
  for (std::size_t peer = 0; peer < streams_.size(); ++peer) {
    const stream& s = streams_[peer];
    const bool is_open = s.open != 0 || s.next < s.sends.size();
    if (is_open && site_.is_alive(static_cast<int>(peer))) return false;
  }
  return true;
}

// The sends of the twins on all ranks, those of one rank in its order: receives of one key are
// filled in order.
void worker::plan_receives() {
  for (std::size_t rank = 0; rank < streams_.size(); ++rank) {
    const action* const all = site_.work.of(static_cast<int>(rank), thread_);
    for (std::size_t i = 0; i < site_.work.per_thread(); ++i) {
      if (all[i].what == kind::send && all[i].peer == site_.rank && !comes_unexpected(all[i]))
        streams_[rank].sends.push_back(&all[i]);
    }
  }
}

void worker::post_receives() {
  for (stream& s : streams_) {
    while (s.next < s.sends.size() && s.open < MOST_RECEIVES &&
           site_.is_alive(s.sends[s.next]->origin))
      post_receive(*s.sends[s.next++], &s.open);
  }
}

void worker::post_receive(const action& a, std::size_t* open) {
  std::unique_ptr<flight> f(
      new flight{flight::step::receive, &a, a.origin, open, std::vector<char>(a.size), {}});
  const lci::status_t answer =
      lci::post_recv_x(a.origin, f->data.data(), f->data.size(), key_of(a), done_)
          .device(device_)
          .user_context(f.get())();
  if (!settle(std::move(f), answer)) throw std::runtime_error("a receive answered retry");
}

void worker::start_next() {
  const action& a = actions_[next_];
  if (!site_.is_alive(a.peer) || site_.set.spoils(settings::deed::drop, a)) {
    ++next_;
    return;
  }
  if (!start(a)) return;
  if (a.what == kind::send && comes_unexpected(a)) note(a.peer, tag_of(word::note, a.number));
  if (site_.set.spoils(settings::deed::twice, a) && !is_repeated_) {
    is_repeated_ = true;
    return;
  }
  ++next_;
}

bool worker::start(const action& a) {
  switch (a.what) {
    case kind::am:
      return start_am(a);
    case kind::send:
      return start_send(a);
    case kind::put:
    case kind::signal:
      return start_put(a);
    case kind::get:
      return start_get(a);
  }
  return false;
}

std::unique_ptr<worker::flight> worker::take_off(const action& a) {
  std::unique_ptr<flight> f(new flight{flight::step::outgoing,
                                       &a,
                                       a.peer,
                                       &in_flight_[static_cast<std::size_t>(a.peer)],
                                       interface_test::pattern(a.size, a.seed),
                                       {}});
  if (site_.set.spoils(settings::deed::corrupt, a)) f->data[a.size / 2] ^= 1;
  if (registered(a) && a.size != 0)
    f->mr = lci::register_memory_x(f->data.data(), a.size).device(device_)();
  return f;
}

// True unless the post answered retry, in which case it is as if nothing had been tried.
bool worker::settle(std::unique_ptr<flight> f, const lci::status_t& answer) {
  if (answer.is_retry()) return false;
  ++*f->under_way;
  flight* const started = f.release();
  if (answer.is_done()) finish(started);
  return true;
}

bool worker::start_am(const action& a) {
  std::unique_ptr<flight> f = take_off(a);
  const auto give_back = [](void* packet) { lci::put_upacket(packet); };
  std::unique_ptr<void, decltype(give_back)> packet(nullptr, give_back);
  if (in_packet(a) && a.size <= site_.work.dimensions().bcopy) packet.reset(lci::get_upacket());
  if (packet && a.size != 0) std::memcpy(packet.get(), f->data.data(), a.size);
  lci::post_am_x op(a.peer, packet ? packet.get() : f->data.data(), a.size, done_, site_.number());
  op.device(device_).user_context(f.get());
  op.allow_retry(!insists(a)).allow_done(!always_signalled(a));
  op.tag(tag_of(wide_tag(a) ? word::wide : word::narrow, a.number));
  if (!packet && !f->mr.is_empty()) op.mr(f->mr);
  const lci::status_t answer = op();
  if (!answer.is_retry()) (void)packet.release();
  return settle(std::move(f), answer);
}

bool worker::start_send(const action& a) {
  std::unique_ptr<flight> f = take_off(a);
  lci::post_send_x op(a.peer, f->data.data(), a.size, key_of(a), done_);
  op.device(device_).user_context(f.get()).allow_done(!always_signalled(a));
  if (!f->mr.is_empty()) op.mr(f->mr);
  // Order per key is part of the check, so a refused send is tried again before anything else.
  return settle(std::move(f), op());
}

// Each has its own place in the window of the peer. Without signal it is complete when it has
// arrived, so that the farewell says that all have.
bool worker::start_put(const action& a) {
  std::unique_ptr<flight> f = take_off(a);
  lci::post_put_x op(a.peer, f->data.data(), a.size, done_, a.place, site_.written_key(a.peer));
  op.device(device_).user_context(f.get()).allow_retry(!insists(a));
  if (a.what == kind::put) {
    op.comp_semantic(lci::comp_semantic_t::network);
  } else {
    op.remote_comp(site_.number()).tag(a.ordinal).allow_done(!always_signalled(a));
  }
  if (!f->mr.is_empty()) op.mr(f->mr);
  return settle(std::move(f), op());
}

bool worker::start_get(const action& a) {
  std::unique_ptr<flight> f = take_off(a);
  f->at = flight::step::get;
  std::fill(f->data.begin(), f->data.end(), '\0');
  lci::post_get_x op(a.peer, f->data.data(), a.size, done_, a.place, site_.read_key(a.peer));
  op.device(device_).user_context(f.get()).allow_retry(!insists(a));
  if (!f->mr.is_empty()) op.mr(f->mr);
  return settle(std::move(f), op());
}

// An empty message that only says something.
void worker::note(int rank, lci::tag_t tag) {
  std::unique_ptr<flight> f(new flight{
      flight::step::note, nullptr, rank, &in_flight_[static_cast<std::size_t>(rank)], {}, {}});
  const lci::status_t answer = lci::post_am_x(rank, nullptr, 0, done_, site_.number())
                                   .device(device_)
                                   .user_context(f.get())
                                   .allow_retry(false)
                                   .tag(tag)();
  settle(std::move(f), answer);
}

void worker::bid_farewell() {
  for (std::size_t peer = 0; peer < streams_.size(); ++peer) {
    const int rank = static_cast<int>(peer);
    try {
      if (site_.is_alive(rank)) note(rank, tag_of(word::farewell, 0));
    } catch (const lci::peer_failure_error& error) {
      site_.lose(error.failed_rank(), error.what());
    }
  }
}

// An operation is complete: checks what it brought.
void worker::finish(flight* f) {
  const std::unique_ptr<flight> owned(f);
  --*f->under_way;
  site_.has_news_of(f->peer);
  if (f->at == flight::step::note) return;
  if (f->at != flight::step::outgoing) {
    ledger::compare(*f->what, f->data.data());
    site_.book.verified(*f->what);
  }
  if (f->at != flight::step::receive) site_.has_completed();
}

void worker::take_completions() {
  for (lci::status_t s = lci::cq_pop(done_); s.is_done(); s = lci::cq_pop(done_))
    finish(static_cast<flight*>(s.user_context));
}

void worker::take_messages() {
  for (lci::status_t s = lci::cq_pop(site_.inbox()); s.is_done(); s = lci::cq_pop(site_.inbox())) {
    site_.has_news_of(s.rank);
    if (s.buffer != nullptr) {
      take_message(s);
      continue;
    }
    const action& a = site_.signalled(s.rank, s.tag);
    ledger::compare(a, site_.written_at(a));
    site_.book.verified(a);
  }
}

void worker::take_message(const lci::status_t& s) {
  const std::uint64_t number = s.tag & ((lci::tag_t{1} << WORD_SHIFT) - 1);
  switch (static_cast<word>(s.tag >> WORD_SHIFT)) {
    case word::farewell:
      site_.has_farewell_of(s.rank);
      break;
    case word::note:
      // The message that it speaks of is here, or on its way in another lane.
      post_receive(site_.book.expected(number, kind::send, s.rank),
                   &streams_[static_cast<std::size_t>(s.rank)].open);
      break;
    default: {
      const action& a = site_.book.expected(number, kind::am, s.rank);
      if (s.tag != tag_of(wide_tag(a) ? word::wide : word::narrow, number) || s.size != a.size)
        throw std::runtime_error("another tag or size: " + name_of(a));
      ledger::compare(a, s.buffer);
      site_.book.verified(a);
    }
  }
  if (s.size > site_.work.dimensions().bcopy) {
    std::free(s.buffer);
  } else {
    lci::put_upacket(s.buffer);
  }
}

}  // namespace stress
