#include "backends/shm/bulk_stream.hpp"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <new>
#include <utility>

#include "backends/shm/connections.hpp"
#include "backends/shm/single_copy.hpp"
#include "lci/mem/packet_pool.hpp"

namespace lci::shm {

void bulk_stream::take_home(mem::packet* p) noexcept {
  p->state.store(mem::packet_state::out, std::memory_order_relaxed);
  mem::pool_of(*p).put(p);
}

bulk_stream::stream_list::~stream_list() {
  while (const stream* const one = pop()) delete one;
}

void bulk_stream::stream_list::push(stream* one) noexcept {
  one->next = nullptr;
  (first_ == nullptr ? first_ : last_->next) = one;
  last_ = one;
}

bulk_stream::stream* bulk_stream::stream_list::pop() noexcept {
  stream* const one = first_;
  if (one != nullptr) first_ = one->next;
  return one;
}

template <class Test>
bulk_stream::stream* bulk_stream::stream_list::take_first(Test&& test) noexcept {
  stream* before = nullptr;
  for (stream* one = first_; one != nullptr; before = one, one = one->next) {
    if (!test(*one)) continue;
    (before == nullptr ? first_ : before->next) = one->next;
    if (one == last_) last_ = before;
    return one;
  }
  return nullptr;
}

void bulk_stream::stream_list::swap(stream_list& other) noexcept {
  std::swap(first_, other.first_);
  std::swap(last_, other.last_);
}

bulk_stream::bulk_stream(connections& peers, outbox& out, base::owned& polling)
    : peers_(peers),
      out_(out),
      polling_(polling),
      flows_(static_cast<std::size_t>(peers.size())),
      dropped_(static_cast<std::size_t>(peers.size())) {}

bulk_stream::stream* bulk_stream::make(int rank) noexcept {
  bool has_flow = false;
  stream* one = nullptr;
  {
    const std::lock_guard lock(lock_);
    has_flow = flows_[static_cast<std::size_t>(rank)] != nullptr;
    one = spare_.pop();
    if (one != nullptr) --spares_;
  }
  if (one == nullptr)
    one = new (std::nothrow) stream;
  else
    *one = stream{};
  if (one == nullptr || has_flow || make_flow(rank)) return one;
  give_back(one);
  return nullptr;
}

void bulk_stream::give_back(stream* one) noexcept {
  {
    const std::lock_guard lock(lock_);
    if (spares_ < MOST_SPARE) {
      ++spares_;
      return spare_.push(one);
    }
  }
  delete one;
}

bulk_stream::flow* bulk_stream::find_flow(int rank) noexcept {
  const std::lock_guard lock(lock_);
  return flows_[static_cast<std::size_t>(rank)].get();
}

bool bulk_stream::make_flow(int rank) noexcept {
  try {
    auto made = std::make_unique<flow>();
    made->who = peers_.find(rank);
    const std::lock_guard lock(lock_);
    std::unique_ptr<flow>& where = flows_[static_cast<std::size_t>(rank)];
    if (where == nullptr) where.swap(made);
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

errorcode_t bulk_stream::post(kind what, const net::net_op& op, copy_way way, chosen_by whom,
                              way_chooser::skips may) noexcept {
  stream* const s = make(op.rank);
  if (s == nullptr) return errorcode_t::retry_nomem;
  s->what = what;
  s->way = way;
  s->is_chosen = s->was_chosen = whom == chosen_by::chooser;
  s->may = may;
  s->has_fence = op.fence;
  s->rank = op.rank;
  s->imm = op.imm;
  s->buffer = static_cast<std::byte*>(op.buffer);
  s->size = s->end = op.size;
  s->there = {op.remote.slot, op.remote.generation, op.remote_offset};
  s->context = op.context;
  if (op.fence)
    s->before = peers_.mark(op.rank, out_);
  else
    out_.find_open_puts(op.rank, s->before);
  // What waits for others takes longer than itself.
  s->is_timed = whom == chosen_by::caller_timed && s->before.used == 0;
  if (s->is_timed) s->started_ticks = base::cpu_ticks();
  {
    const std::lock_guard lock(lock_);
    submitted_.push(s);
    busy_.store(true, std::memory_order_relaxed);
    posted_.fetch_add(1, std::memory_order_relaxed);
  }
  // The usual caller polls this device itself: then the first pieces leave now. Others do not take
  // the polling away from its owner for this.
  base::detail::thread_record* const me = base::detail::thread_record_tls;
  if (me != nullptr && polling_.enter_as_owner(me)) {
    advance_all();
    polling_.leave(me);
  }
  return errorcode_t::posted;
}

errorcode_t bulk_stream::fail_later(int rank, void* context, const char* reason) noexcept {
  stream* const s = make(rank);
  if (s == nullptr) return errorcode_t::retry_nomem;
  s->rank = rank;
  s->context = context;
  s->why = reason;
  posted_.fetch_add(1, std::memory_order_relaxed);
  finish(s);
  return errorcode_t::posted;
}

bool bulk_stream::watch(int rank, mem::packet* p) noexcept {
  try {
    const std::lock_guard lock(lock_);
    watched_.push_back({rank, p});
    busy_.store(true, std::memory_order_relaxed);
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

void bulk_stream::finish(stream* one) noexcept {
  const std::lock_guard lock(lock_);
  finished_.push(one);
  busy_.store(true, std::memory_order_relaxed);
}

std::size_t bulk_stream::poll(net::sink& to) noexcept {
  sweep();
  advance_all();
  const std::size_t n = deliver(to);
  const std::lock_guard lock(lock_);
  busy_.store(
      !submitted_.is_empty() || !finished_.is_empty() || !watched_.empty() || active_ != nullptr,
      std::memory_order_relaxed);
  return n;
}

void bulk_stream::sweep() noexcept {
  for (;;) {
    mem::packet* home = nullptr;
    {
      const std::lock_guard lock(lock_);
      const auto found = std::find_if(watched_.begin(), watched_.end(), [this](const watched& w) {
        return has_come_back(*w.packet) || is_dropped(w.rank);
      });
      if (found == watched_.end()) return;
      home = found->packet;
      *found = watched_.back();
      watched_.pop_back();
    }
    take_home(home);
  }
}

std::size_t bulk_stream::deliver(net::sink& to) noexcept {
  for (std::size_t n = 0;; ++n) {
    stream* one;
    {
      const std::lock_guard lock(lock_);
      one = finished_.pop();
    }
    if (one == nullptr) return n;
    const int rank = one->rank;
    void* const context = one->context;
    const char* const why = one->why;
    const bool is_forgotten = one->is_forgotten;
    give_back(one);
    if (is_forgotten) continue;
    if (why != nullptr) {
      to.on_error(rank, context, why);
    } else if (context != nullptr) {
      to.on_complete(context);
    }
    // edge bulk_stream.drained: partner is is_drained().
    posted_.fetch_sub(1, std::memory_order_release);
  }
}

void bulk_stream::take_submitted() noexcept {
  stream_list fresh;
  {
    const std::lock_guard lock(lock_);
    fresh.swap(submitted_);
  }
  while (stream* const s = fresh.pop()) {
    if (is_dropped(s->rank)) {
      // It was posted while the news of the peer's end was on its way.
      s->why = PEER_ENDED;
      finish(s);
    } else {
      activate(s->rank).waiting.push(s);
    }
  }
}

// A thread that has a record for that rank has seen its flow made.
bulk_stream::flow& bulk_stream::activate(int rank) noexcept {
  flow& f = *flows_[static_cast<std::size_t>(rank)];
  if (!f.is_active) {
    f.is_active = true;
    f.next = std::exchange(active_, &f);
  }
  return f;
}

void bulk_stream::advance_all() noexcept {
  take_submitted();
  for (flow** at = &active_; *at != nullptr;) {
    flow& f = **at;
    advance(f);
    if (f.is_idle()) {
      f.is_active = false;
      *at = f.next;
    } else {
      at = &f.next;
    }
  }
}

void bulk_stream::advance(flow& f) noexcept {
  retire(f);
  end_issued(f);
  f.turn = KERNEL_TURN;
  while (stream* const s = f.waiting.front()) {
    if (!issue(f, *s)) break;
    f.waiting.pop();
    const bool is_asked_for = s->what == kind::get && s->source.region_slot != 0 && !s->is_reply;
    (is_asked_for ? f.gets : f.issued).push(s);
  }
  end_issued(f);
}

// What has failed still waits for its pieces: the buffer is not free before.
void bulk_stream::end_issued(flow& f) noexcept {
  while (!f.issued.is_empty() && f.issued.front()->out == 0) {
    if (f.issued.front()->way == copy_way::pipeline) measure(f, *f.issued.front());
    end(f.issued.pop());
  }
}

void bulk_stream::end(stream* one) noexcept {
  if (!one->is_reply) return finish(one);
  give_back(one);
}

// However many wait: one that is refused would block its lane, and with it the pieces that the
// peer sends for our own gets. Each takes as much memory here as at the peer.
bool bulk_stream::start_reply(peer& who, const get_record& asked) noexcept {
  // The answer is not read, and its end is told once its lanes are empty.
  if (who.has_ended()) return true;
  const mem::region_table* regions = peers_.config().regions;
  const void* const from =
      regions == nullptr || asked.size == 0
          ? nullptr
          : regions->find({asked.from.region_slot, asked.from.region_generation}, asked.from.offset,
                          asked.size);
  const bool is_answered = from != nullptr
                               ? reply_at_once(who.rank, asked, from)
                               : refuse_get(who.rank, {asked.to_slot, asked.to_generation});
  if (is_answered) return true;
  stream* const s = make(who.rank);
  if (s == nullptr) return false;
  s->is_reply = true;
  s->rank = who.rank;
  s->source = asked.from;
  s->there = {asked.to_slot, asked.to_generation, 0};
  s->size = s->end = asked.size;
  if (from == nullptr) s->why = reason_of(copied::unknown);
  activate(who.rank).waiting.push(s);
  busy_.store(true, std::memory_order_relaxed);
  return true;
}

void bulk_stream::finish_get(int rank, mem::region_name name, const char* why) noexcept {
  flow* const f = find_flow(rank);
  if (f == nullptr) return;
  stream* const one = f->gets.take_first([name](const stream& s) {
    return s.source.region_slot == name.slot && s.source.region_generation == name.generation;
  });
  // Else it is late, repeated or forged: there is no such get.
  if (one == nullptr) return;
  one->why = why;
  if (one->way == copy_way::pipeline) measure(*f, *one);
  if (one->is_timed && why == nullptr)
    f->who->unmeasured.in_post_of(true, one->size)
        .note(copy_in_post::way::target, base::cpu_ticks() - one->started_ticks);
  finish_get(one, why);
}

void bulk_stream::finish_get(stream* one, const char* why) noexcept {
  peers_.config().regions->erase({one->source.region_slot, one->source.region_generation});
  one->why = why;
  finish(one);
}

}  // namespace lci::shm
