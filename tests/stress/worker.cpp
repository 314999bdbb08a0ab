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
constexpr std::size_t MOST_RECEIVES = 16;

// Bits of action::variant.
bool registered(const action& a) { return (a.variant & 3) == 0; }
bool in_packet(const action& a) { return (a.variant & 12) == 0; }
bool wide_tag(const action& a) { return (a.variant & 48) == 0; }
bool insists(const action& a) { return (a.variant & 64) != 0; }
bool always_signalled(const action& a) { return (a.variant & 128) != 0; }
}  // namespace

// One operation under way with all that it needs to live until it completes.
struct worker::flight {
  enum class step { receive, outgoing, put, read_back, get };
  step at;
  const action* what;
  int from = -1;  // receives only
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
      done_(lci::alloc_cq()) {
  plan_receives();
}

worker::~worker() { lci::free_comp(&done_); }

void worker::run() {
  bool counted = false;
  while (site_.busy.load(std::memory_order_acquire) != 0) {
    post_receives();
    if (next_ < actions_.size() && in_flight_ < MOST_IN_FLIGHT) start_next();
    // With more threads than cores somebody else needs the core to answer.
    if (!lci::progress_x().device(device_)().is_done()) std::this_thread::yield();
    take_completions();
    take_messages();
    const bool through = next_ == actions_.size() && in_flight_ == 0 &&
                         next_receive_ == receives_.size() && open_receives_ == 0 &&
                         site_.arrived.load(std::memory_order_acquire) == site_.expected;
    if (through && !counted) {
      counted = true;
      site_.busy.fetch_sub(1, std::memory_order_release);
    }
  }
}

// The sends of the twins on all ranks, those of one rank in its order: receives of one key are
// filled in order.
void worker::plan_receives() {
  for (int rank = 0; rank < site_.work.dimensions().ranks; ++rank)
    for (const action& a : site_.work.of(rank, thread_))
      if (a.what == kind::send && a.peer == site_.rank) receives_.push_back({rank, &a});
}

void worker::post_receives() {
  while (next_receive_ < receives_.size() && open_receives_ < MOST_RECEIVES) {
    const expectation& e = receives_[next_receive_++];
    auto* f =
        new flight{flight::step::receive, e.what, e.from, std::vector<char>(e.what->size), {}};
    ++open_receives_;
    const lci::status_t answer = lci::post_recv_x(e.from, f->data.data(), f->data.size(),
                                                  static_cast<lci::tag_t>(thread_), done_)
                                     .device(device_)
                                     .user_context(f)();
    if (answer.is_retry()) throw std::runtime_error("a receive answered retry");
    if (answer.is_done()) finish(f);
  }
}

void worker::start_next() {
  const action& a = actions_[next_];
  bool started = false;
  switch (a.what) {
    case kind::am:
      started = start_am(a);
      break;
    case kind::send:
      started = start_send(a);
      break;
    case kind::put_get:
      started = start_put(a);
      break;
    case kind::get:
      started = start_get(a);
      break;
  }
  if (started) ++next_;
}

std::unique_ptr<worker::flight> worker::take_off(const action& a) {
  std::unique_ptr<flight> f(
      new flight{flight::step::outgoing, &a, -1, interface_test::pattern(a.size, a.seed), {}});
  if (registered(a) && a.size != 0)
    f->mr = lci::register_memory_x(f->data.data(), a.size).device(device_)();
  return f;
}

// True unless the post answered retry, in which case it is as if nothing had been tried.
bool worker::settle(flight* f, const lci::status_t& answer) {
  if (answer.is_retry()) {
    delete f;
    return false;
  }
  ++in_flight_;
  if (answer.is_done()) finish(f);
  return true;
}

bool worker::start_am(const action& a) {
  const am_head head{static_cast<std::uint32_t>(site_.rank), static_cast<std::uint32_t>(thread_),
                     static_cast<std::uint32_t>(next_)};
  flight* f = take_off(a).release();
  std::memcpy(f->data.data(), &head, HEAD);
  void* packet = nullptr;
  if (in_packet(a) && a.size <= site_.work.dimensions().bcopy) packet = lci::get_upacket();
  if (packet != nullptr) std::memcpy(packet, f->data.data(), a.size);
  lci::post_am_x op(a.peer, packet != nullptr ? packet : f->data.data(), a.size, done_,
                    site_.number);
  op.device(device_).user_context(f).allow_retry(!insists(a)).allow_done(!always_signalled(a));
  op.tag(wide_tag(a) ? a.seed : a.seed % 65536);
  if (packet == nullptr && !f->mr.is_empty()) op.mr(f->mr);
  const lci::status_t answer = op();
  if (answer.is_retry() && packet != nullptr) lci::put_upacket(packet);
  return settle(f, answer);
}

bool worker::start_send(const action& a) {
  flight* f = take_off(a).release();
  lci::post_send_x op(a.peer, f->data.data(), a.size, static_cast<lci::tag_t>(thread_), done_);
  op.device(device_).user_context(f).allow_done(!always_signalled(a));
  if (!f->mr.is_empty()) op.mr(f->mr);
  // Order per key is part of the check, so a refused send is tried again before anything else.
  return settle(f, op());
}

// Writes into this thread's own slot at the peer, reads it back, compares. One at a time.
bool worker::start_put(const action& a) {
  if (slot_busy_) return false;
  flight* f = take_off(a).release();
  f->at = flight::step::put;
  const std::size_t slot =
      static_cast<std::size_t>(site_.rank * site_.work.dimensions().threads + thread_);
  lci::post_put_x op(a.peer, f->data.data(), a.size, done_, slot * site_.slot,
                     site_.written[static_cast<std::size_t>(a.peer)]);
  op.device(device_)
      .user_context(f)
      .comp_semantic(lci::comp_semantic_t::network)
      .allow_retry(!insists(a));
  if (!f->mr.is_empty()) op.mr(f->mr);
  slot_busy_ = true;
  if (settle(f, op())) return true;
  slot_busy_ = false;
  return false;
}

lci::status_t worker::read_back(flight* f) {
  const std::size_t slot =
      static_cast<std::size_t>(site_.rank * site_.work.dimensions().threads + thread_);
  std::fill(f->data.begin(), f->data.end(), '\0');
  return lci::post_get_x(f->what->peer, f->data.data(), f->data.size(), done_, slot * site_.slot,
                         site_.written[static_cast<std::size_t>(f->what->peer)])
      .device(device_)
      .user_context(f)
      .allow_retry(false)();
}

bool worker::start_get(const action& a) {
  flight* f = take_off(a).release();
  f->at = flight::step::get;
  const std::size_t room = site_.constant_size - a.size;
  const std::size_t at = a.seed % (room + 1);
  std::fill(f->data.begin(), f->data.end(), '\0');
  lci::post_get_x op(a.peer, f->data.data(), a.size, done_, at,
                     site_.constant[static_cast<std::size_t>(a.peer)]);
  op.device(device_).user_context(f).allow_retry(!insists(a));
  if (!f->mr.is_empty()) op.mr(f->mr);
  return settle(f, op());
}

// An operation is complete: checks what it brought, goes on to its next step or ends it.
void worker::finish(flight* f) {
  const action& a = *f->what;
  switch (f->at) {
    case flight::step::receive:
      verify(f->data.data(), a.size, a.seed, 0, "message from rank " + std::to_string(f->from));
      --open_receives_;
      break;
    case flight::step::put: {
      f->at = flight::step::read_back;
      if (read_back(f).is_done()) finish(f);
      return;
    }
    case flight::step::read_back:
      verify(f->data.data(), a.size, a.seed, 0,
             "put to and get from rank " + std::to_string(a.peer));
      slot_busy_ = false;
      --in_flight_;
      break;
    case flight::step::get: {
      const std::size_t at = a.seed % (site_.constant_size - a.size + 1);
      const std::vector<char> expected =
          interface_test::pattern(at + a.size, constant_seed(a.peer));
      if (std::memcmp(f->data.data(), expected.data() + at, a.size) != 0)
        throw std::runtime_error("get from rank " + std::to_string(a.peer) +
                                 " brought other bytes");
      --in_flight_;
      break;
    }
    case flight::step::outgoing:
      --in_flight_;
      break;
  }
  delete f;
}

void worker::take_completions() {
  for (lci::status_t s = lci::cq_pop(done_); s.is_done(); s = lci::cq_pop(done_))
    finish(static_cast<flight*>(s.user_context));
}

void worker::take_messages() {
  for (lci::status_t s = lci::cq_pop(site_.inbox); s.is_done(); s = lci::cq_pop(site_.inbox)) {
    am_head head;
    std::memcpy(&head, s.buffer, HEAD);
    const shape& d = site_.work.dimensions();
    const bool known = head.rank < static_cast<unsigned>(d.ranks) &&
                       head.thread < static_cast<unsigned>(d.threads) &&
                       head.index < static_cast<unsigned>(d.actions);
    if (!known || s.rank != static_cast<int>(head.rank))
      throw std::runtime_error("an active message that nobody sent");
    const action& a = site_.work.of(s.rank, static_cast<int>(head.thread))[head.index];
    const std::string what = "active message " + std::to_string(head.index) + " of thread " +
                             std::to_string(head.thread) + " of rank " + std::to_string(s.rank);
    if (a.what != kind::am || a.peer != site_.rank || a.size != s.size ||
        s.tag != (wide_tag(a) ? a.seed : a.seed % 65536))
      throw std::runtime_error(what + " is not what was sent");
    verify(s.buffer, s.size, a.seed, HEAD, what);
    auto& seen = site_.seen[static_cast<std::size_t>(s.rank * d.threads) + head.thread][head.index];
    if (seen.exchange(true, std::memory_order_relaxed))
      throw std::runtime_error(what + " arrived twice");
    if (s.size > d.bcopy) {
      std::free(s.buffer);
    } else {
      lci::put_upacket(s.buffer);
    }
    site_.arrived.fetch_add(1, std::memory_order_release);
  }
}

void worker::verify(const void* data, std::size_t size, std::uint64_t seed, std::size_t skip,
                    const std::string& what) const {
  std::vector<char> expected = interface_test::pattern(size, seed);
  if (size > skip &&
      std::memcmp(static_cast<const char*>(data) + skip, expected.data() + skip, size - skip) != 0)
    throw std::runtime_error(what + ": wrong bytes among " + std::to_string(size));
}

}  // namespace stress
