#include "lci/proto/engine/progress_engine.hpp"

#include <sched.h>

#include <algorithm>
#include <mutex>
#include <utility>

#include "lci/base/platform.hpp"
#include "lci/base/rough_clock.hpp"
#include "lci/base/spin.hpp"
#include "lci/base/undo.hpp"
#include "lci/proto/engine/packet_size.hpp"

namespace lci::proto {

namespace {

// Messages of the protocols that can wait although there is no memory.
constexpr std::size_t CONTROL_SPARES = 32;

}  // namespace

progress_engine::progress_engine(core& c, net::fabric& f, int number,
                                 const net::device_config& wanted, mem::packet_pool& p,
                                 std::size_t piece)
    : shared(c),
      fabric(f),
      index(number),
      pool(p),
      max_piece(piece),
      max_copy(longest_copy(p, std::min(f.caps().max_send, c.max_send))),
      max_in_packet(longest_copy(p, c.max_send)),
      config(wanted),
      errors(c),
      watch(c, errors, *this),
      signals(c, handlers, errors, watch),
      handlers(c.arena, p, signals, c.max_handler_depth),
      control(*this, nullptr, CONTROL_SPARES),
      device_(f.make_device(number, config)) {
  polled_ = device_.get();
  base::the_rough_clock.look(base::cpu_ticks(), base::ticks_per_ms());
  control.attach(device_->make_control_endpoint());
  queues_.push_back(&control);
}

lent_queue progress_engine::lend_queue() {
  if (!free_queues_.empty()) {
    lent_queue one(free_queues_.back());
    free_queues_.pop_back();
    return one;
  }
  auto made = std::make_unique<post_queue>(*this, device_->make_endpoint());
  base::make_room(made_queues_);
  free_queues_.reserve(made_queues_.capacity());
  {
    const std::lock_guard lock(queues_lock_);
    queues_.push_back(made.get());
  }
  made_queues_.push_back(std::move(made));  // there is room
  return lent_queue(made_queues_.back().get());
}

void progress_engine::take_back(post_queue& one) noexcept {
  free_queues_.push_back(&one);  // there is room
}

void progress_engine::forget_backlogs() noexcept {
  for (const auto& one : made_queues_) one->forget(-1);
}

void progress_engine::look_around() noexcept {
  base::the_rough_clock.look(base::cpu_ticks(), base::ticks_per_ms());
  if (shared.failures != nullptr) shared.failures->look();
}

// Nothing to do. Programs call progress in loops of their own; with more ranks than cores the
// process that they wait for may need this very core.
void progress_engine::rest() noexcept {
  constexpr std::uint32_t PATIENCE = 16;
  // A hint, so lost counts of threads that rest together do not matter.
  const std::uint32_t idle = idle_.load(std::memory_order_relaxed) + 1;
  idle_.store(idle < PATIENCE ? idle : 0, std::memory_order_relaxed);
  if (idle == PATIENCE) sched_yield();
}

bool progress_engine::is_quiet_but_for_handlers() const noexcept {
  return open.sum() == 0 &&
         std::all_of(parts_.begin(), parts_.end(),
                     [](const part* one) { return one->is_quiet(); }) &&
         leftovers_.load(std::memory_order_relaxed) == 0;
}

LCI_COLD std::size_t progress_engine::do_leftovers() {
  std::size_t work = 0;
  if (shared.is_busy())
    for (part* const one : parts_) work += one->poll();
  if (handlers.size() != 0) work += handlers.run(MAX_TURNS);
  if (finished_.any()) work += deliver_finished();
  if (parked_.any()) work += advance_parked();
  if (leftovers_.load(std::memory_order_relaxed) != 0) {
    work += drain_backlogs();
    for (part* const one : parts_)
      if (one->is_waiting()) work += one->serve_waiting();
  }
  return work;
}

std::size_t progress_engine::drain_backlogs() noexcept {
  std::size_t moved = 0;
  for (std::size_t i = 0; post_queue* const one = queue_at(i); ++i)
    if (one->log.any()) moved += one->drain();
  return moved;
}

void progress_engine::transfer_list::append_locked(transfer& move) noexcept {
  move.next = nullptr;
  if (any())
    last->next = &move;
  else
    first.store(&move, std::memory_order_relaxed);
  last = &move;
}

transfer* progress_engine::transfer_list::take_locked() noexcept {
  transfer* const one = first.load(std::memory_order_relaxed);
  if (one != nullptr) first.store(one->next, std::memory_order_relaxed);
  return one;
}

// One at a time: a handler that waits has to find the others where they are.
transfer* progress_engine::take(transfer_list& from) noexcept {
  const std::lock_guard lock(lists_lock_);
  return from.take_locked();
}

void progress_engine::park(transfer& move) noexcept {
  expect_leftovers(1);
  const std::lock_guard lock(lists_lock_);
  parked_.append_locked(move);
}

// Those that are there now: what is refused again goes to the end.
std::size_t progress_engine::advance_parked() {
  std::size_t left = 0;
  {
    const std::lock_guard lock(lists_lock_);
    for (const transfer* one = parked_.first.load(std::memory_order_relaxed); one != nullptr;
         one = one->next)
      ++left;
  }
  std::size_t moved = 0;
  for (; moved < left; ++moved) {
    transfer* const one = take(parked_);
    if (one == nullptr) break;
    expect_leftovers(-1);
    one->queue->start(*one);
  }
  return moved;
}

void progress_engine::finish_later(transfer& move) noexcept {
  expect_leftovers(1);
  const std::lock_guard lock(lists_lock_);
  finished_.append_locked(move);
}

std::size_t progress_engine::deliver_finished() {
  std::size_t count = 0;
  for (; count < MAX_TURNS; ++count) {
    transfer* const one = take(finished_);
    if (one == nullptr) break;
    expect_leftovers(-1);
    finish(*one);
  }
  return count;
}

void progress_engine::abort(transfer& move) noexcept {
  move.failed = true;
  if (move.of->on_abort != nullptr) move.of->on_abort(move);
  finish(move);
}

void progress_engine::finish(transfer& move) noexcept {
  if (move.own_key != 0) fabric.deregister_region(move.own_key);
  if (move.packet != nullptr) mem::release_packet(shared.arena, move.packet);
  if (move.carrier != nullptr) [[unlikely]]
    move.carrier->discard(move);
  if (!move.of->is_operation) return shared.transfers.put(&move);
  const user_side user = move.user;
  const bool failed = move.failed;
  open.add(-1);
  shared.transfers.put(&move);
  signals.tell(user, !failed);
}

void progress_engine::end_what_waits_for(int rank, peer_end how) noexcept {
  for (part* const one : parts_) one->on_peer_ended(rank, how);
  for (std::size_t i = 0; post_queue* const one = queue_at(i); ++i) one->forget(rank);
}

bool progress_engine::end_what_stays_from(int rank) noexcept {
  bool is_any = false;
  for (part* const one : parts_) is_any |= one->on_all_in(rank);
  return is_any;
}

void progress_engine::refuse(int rank, errorcode_t why) noexcept {
  const auto reason =
      static_cast<std::size_t>(why) - static_cast<std::size_t>(errorcode_t::retry_min);
  if (reason >= REASONS) return;
  // Threads that find a device full are refused all the time. Each counts for itself, and says so
  // after the first time and then after every BATCH.
  constexpr std::uint32_t BATCH = 64;
  struct own_count {
    const progress_engine* by = nullptr;
    std::size_t reason = 0;
    std::uint32_t times = 0, due = 1;
  };
  thread_local constinit own_count mine;
  // statistics only; `rank` is that of the refusal that brings the others
  const auto add = [&] {
    refusal_count& of = refusals_[mine.reason];
    of.times.store(of.times.load(std::memory_order_relaxed) + mine.times,
                   std::memory_order_relaxed);
    of.rank.store(rank, std::memory_order_relaxed);
    mine.times = 0;
    mine.due = BATCH;
  };
  // An engine that has counted nothing yet is another one, whatever its address.
  const auto has_counted = [&](std::size_t i) {
    return refusals_[i].times.load(std::memory_order_relaxed) != 0;
  };
  if (mine.by != this || mine.reason != reason || !has_counted(reason)) {
    if (mine.by == this && mine.times != 0 && has_counted(mine.reason)) add();
    mine = {this, reason, 0, 1};
  }
  if (++mine.times >= mine.due) add();
}

void progress_engine::report(base::report::sheet& to) noexcept {
  using base::report::kind;
  using base::report::record;
  if (record* const r = to.add(kind::progress))
    r->number = static_cast<std::uint64_t>(rounds_.sum());
  if (record* const r = to.add(kind::packets)) {
    r->number = pool.outstanding();
    r->size = pool.limit();
  }
  for (part* const one : parts_) one->report(to);
  for (std::size_t i = 0; i < REASONS; ++i) {
    const std::uint64_t times = refusals_[i].times.load(std::memory_order_relaxed);
    if (times == 0) continue;
    record* const r = to.add(kind::refusals);
    if (r == nullptr) return;
    r->how = static_cast<std::uint8_t>(i + static_cast<std::size_t>(errorcode_t::retry_min));
    r->number = times;
    r->rank = refusals_[i].rank.load(std::memory_order_relaxed);
  }
  const std::unique_lock lock(queues_lock_, std::try_to_lock);
  bool is_whole = lock.owns_lock();
  for (std::size_t i = 0; lock.owns_lock() && i < queues_.size(); ++i) {
    is_whole &= queues_[i]->log.try_look([&](int rank, std::uint64_t entries) {
      record* const r = to.add(kind::backlog);
      if (r == nullptr) return;
      r->rank = rank;
      r->number = entries;
    });
  }
  if (!is_whole) to.add(kind::busy, "a backlog");
}

}  // namespace lci::proto
