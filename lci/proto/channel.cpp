#include "lci/proto/channel.hpp"

#include <sched.h>

#include <algorithm>

#include "lci/base/log.hpp"
#include "lci/base/spin.hpp"
#include "lci/comp/signal.hpp"
#include "lci/errors.hpp"
#include "lci/proto/arrival.hpp"

namespace lci::proto {

channel::channel(core& c, net::fabric& f, int index, const net::device_config& wanted,
                 mem::packet_pool& p, std::size_t piece)
    : shared(c),
      fabric(f),
      pool(p),
      max_piece(piece),
      config(wanted),
      control(*this, nullptr),
      device_(f.make_device(index, config)),
      reported_(static_cast<std::size_t>(c.n)),
      missed_(static_cast<std::size_t>(c.n)),
      concerned_(static_cast<std::size_t>(c.n)),
      has_ended_(static_cast<std::size_t>(c.n)),
      parted_(static_cast<std::size_t>(c.n)) {
  control.attach(device_->make_control_endpoint());
  ports_.push_back(&control);
  shared.enter(*this);
}

channel::~channel() {
  shared.leave(*this);
  shared.streams.forget(this);
}

void channel::add_port(port& p) {
  const std::lock_guard lock(ports_lock_);
  ports_.push_back(&p);
}

void channel::remove_port(port& p) {
  const std::lock_guard lock(ports_lock_);
  std::erase(ports_, &p);
}

// Now and then, busy or not. Counts that threads lose do not matter.
inline void channel::look_out() noexcept {
  const std::uint32_t round = rounds_.load(std::memory_order_relaxed) + 1;
  rounds_.store(round, std::memory_order_relaxed);
  if (round % LOOK_EVERY == 0 && shared.far_news != nullptr) [[unlikely]]
    shared.far_news->look();
}

// What all rounds of progress do; they differ in what they throw.
inline std::size_t channel::advance() {
  const handler_depth here;
  if (here.value() > handlers.limit()) [[unlikely]]
    no_progress_here::check(here.value());
  std::size_t work = 0;
  if (has_leftovers()) [[unlikely]]
    work += do_leftovers();
  arrival_sink sink(*this, here.value());
  work += device_->poll(sink, MAX_POLLS);
  look_out();
  look_for_gone();
  return work;
}

inline errorcode_t channel::answer(std::size_t work) noexcept {
  if (work != 0) [[likely]] {
    idle_.store(0, std::memory_order_relaxed);
    return errorcode_t::done;
  }
  return rest();
}

errorcode_t channel::progress() {
  const std::size_t work = advance();
  if (has_news_.load(std::memory_order_relaxed)) [[unlikely]]
    tell_news();
  return answer(work);
}

errorcode_t channel::progress_in_wait() {
  const std::size_t work = advance();
  if (has_problems_.load(std::memory_order_relaxed)) [[unlikely]]
    rethrow_kept();
  return answer(work);
}

// Nothing to do. Programs call progress in loops of their own; with more ranks than cores whoever
// they wait for may need this very core.
errorcode_t channel::rest() noexcept {
  constexpr std::uint32_t PATIENCE = 16;
  if (!base::spin_wait::is_oversubscribed()) return errorcode_t::retry;
  // A hint, so lost counts of threads that rest together do not matter.
  const std::uint32_t idle = idle_.load(std::memory_order_relaxed) + 1;
  idle_.store(idle < PATIENCE ? idle : 0, std::memory_order_relaxed);
  if (idle == PATIENCE) sched_yield();
  return errorcode_t::retry;
}

bool channel::is_drained() const noexcept { return open_receives.sum() == 0 && is_quiet(); }

bool channel::is_quiet() const noexcept {
  return handlers.completions() == 0 && is_quiet_but_for_handlers() && device_->is_drained();
}

bool channel::is_quiet_but_for_handlers() const noexcept {
  return open.sum() == 0 && rendezvous.recvs.size() == 0 && staged.is_quiet() && late.sum() == 0 &&
         offered.is_quiet() && !finished_.any() && !parked_.any() &&
         backlogged_.load(std::memory_order_relaxed) == 0 && !shared.streams.is_waited_for(this);
}

LCI_COLD std::size_t channel::do_leftovers() {
  std::size_t work = 0;
  if (shared.gpus.is_busy()) work += shared.gpus.poll() + flags.poll();
  if (shared.streams.any()) work += move_streams();
  if (handlers.size() != 0) work += handlers.run(MAX_TURNS);
  if (finished_.any()) work += deliver_finished();
  if (parked_.any()) work += advance_parked();
  if (backlogged_.load(std::memory_order_relaxed) != 0)
    work += drain_backlogs() + staged.serve_waiting() + payloads.serve_waiting();
  return work;
}

std::size_t channel::move_streams() {
  std::vector<std::exception_ptr> problems;
  const std::size_t moved = shared.streams.advance(problems);
  for (std::exception_ptr& problem : problems) keep(std::move(problem));
  return moved;
}

std::size_t channel::drain_backlogs() {
  std::vector<port*> ports;
  {
    const std::lock_guard lock(ports_lock_);
    ports = ports_;
  }
  std::size_t moved = 0;
  for (port* p : ports)
    if (p->log.any()) moved += p->log.drain(*p);
  return moved;
}

void channel::transfer_list::append_locked(transfer& move) noexcept {
  move.next = nullptr;
  if (any())
    last->next = &move;
  else
    first.store(&move, std::memory_order_relaxed);
  last = &move;
}

transfer* channel::transfer_list::take_locked() noexcept {
  transfer* const one = first.load(std::memory_order_relaxed);
  if (one != nullptr) first.store(one->next, std::memory_order_relaxed);
  return one;
}

// One at a time: a handler that waits has to find the others where they are.
transfer* channel::take(transfer_list& from) noexcept {
  const std::lock_guard lock(lists_lock_);
  return from.take_locked();
}

void channel::park(transfer& move) noexcept {
  const std::lock_guard lock(lists_lock_);
  parked_.append_locked(move);
}

// Those that are there now: what is refused again goes to the end.
std::size_t channel::advance_parked() {
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
    one->via->start(*one);
  }
  return moved;
}

void channel::finish_later(transfer& move) noexcept {
  const std::lock_guard lock(lists_lock_);
  finished_.append_locked(move);
}

std::size_t channel::deliver_finished() {
  std::size_t count = 0;
  for (; count < MAX_TURNS; ++count) {
    transfer* const one = take(finished_);
    if (one == nullptr) break;
    finish(*one);
  }
  return count;
}

void channel::finish(transfer& move) noexcept {
  if (move.registered_here) fabric.deregister_region(move.op.local_key);
  if (move.packet != nullptr) mem::release_packet(shared.arena, move.packet);
  const user_side user = move.user;
  const bool failed = move.failed;
  if (failed && move.end == ending::offer)
    say(move.op.rank, wire::staged_kind::offer_end,
        wire::offer_end{move.peer_state, move.total, 0, 0});
  if (failed && move.is_direct && move.end == ending::rendezvous)
    say(move.op.rank, wire::staged_kind::drop_receive, wire::drop{move.peer_state, 0, 0});
  discard_direct(shared, move);
  if (move.end == ending::rendezvous) on_written(*this, move.local_state, !failed);
  if (move.end == ending::piece) staged.arrived(move.local_state, move.piece, !failed);
  if (move.counted) open.add(-1);
  shared.transfers.put(&move);
  tell(user, !failed);
}

void channel::fail(const user_side& user) noexcept {
  const int rank = user.status.rank;
  const bool is_by_loss = rank >= 0 && is_lost(rank);
  if (is_by_loss && !user.is_arrival) concern(rank);
  if (user.is_waiter)
    static_cast<waiter*>(user.comp)->fail();
  else if (user.comp != nullptr && is_by_loss && user.comp->attr.serial == user.serial)
    comp::lose(user.comp, rank, user.number);
}

void channel::concern(int rank) noexcept {
  const std::lock_guard lock(lists_lock_);
  concerned_[static_cast<std::size_t>(rank)] = true;
  lost.call_for(rank);
  count_news_locked();
}

void channel::note_end(int rank) noexcept {
  // Relaxed: see the declaration.
  has_ended_[static_cast<std::size_t>(rank)].store(true, std::memory_order_relaxed);
}

// Too deep inside of handlers, or behind others that were.
void channel::signal_in_turn(comp_impl_t& to, const status_t& status, bool is_completion,
                             news what) noexcept {
  if (handler_depth::now() > handlers.limit()) {
    if (handlers.add(to, status, is_completion, what)) return;
    // Without memory it is better to be too deep than to lose it.
  } else {
    handlers.run(handlers.size());
  }
  signal_now(&to, status, what);
}

void channel::signal_now(comp_impl_t* to, const status_t& status, news what) noexcept {
  try {
    comp::signal(to, status);
  } catch (const comp::freed_error& error) {
    keep(freed_too_early(status, what, error.what()));
  } catch (...) {
    keep(std::current_exception());
  }
}

void channel::keep_freed(const comp_impl_t* to, const status_t& status, news what) noexcept {
  keep(freed_too_early(status, what, comp::freed_text(to).c_str()));
}

void channel::count_news_locked() noexcept {
  has_problems_.store(!problems_.empty(), std::memory_order_relaxed);
  has_news_.store(!problems_.empty() || lost.any(), std::memory_order_relaxed);
}

void channel::keep(std::exception_ptr problem) noexcept {
  const std::lock_guard lock(lists_lock_);
  problems_.push_back(std::move(problem));
  count_news_locked();
}

void channel::rethrow_kept() {
  std::exception_ptr first;
  {
    const std::lock_guard lock(lists_lock_);
    if (problems_.empty()) return;
    // One at a time: each problem reaches somebody.
    first = problems_.front();
    problems_.erase(problems_.begin());
    count_news_locked();
  }
  std::rethrow_exception(first);
}

// A death comes before other problems of the round: it is the cause of many.
void channel::tell_news() {
  const bool is_silent = lost.is_silent_here();
  int rank = is_silent ? losses::NONE : lost.take(true);
  if (rank == losses::NONE) {
    if (has_problems_.load(std::memory_order_relaxed)) rethrow_kept();
    if (!is_silent) rank = lost.take(false);
  }
  if (rank == losses::NONE) return;
  {
    const std::lock_guard lock(lists_lock_);
    count_news_locked();
  }
  shared.throw_gone(rank);
}

void channel::throw_loss(std::uint32_t number) { shared.throw_gone(lost.tell(number)); }

void channel::keep_gone(int rank) noexcept {
  const std::lock_guard lock(lists_lock_);
  const bool is_due = shared.failure_notice == attr_failure_notice_t::all ||
                      needs_all_.load(std::memory_order_relaxed) != 0 ||
                      concerned_[static_cast<std::size_t>(rank)];
  lost.add(rank, shared.has_died(rank), is_due);
  count_news_locked();
}

// Deaths are reported by notice_failures(). That a peer took leave is no error, unless it was still
// needed: then it is one, once.
void channel::miss(int rank) noexcept {
  if (shared.has_died(rank)) return;
  {
    const std::lock_guard lock(lists_lock_);
    if (missed_[static_cast<std::size_t>(rank)]) return;
    missed_[static_cast<std::size_t>(rank)] = true;
  }
  keep_gone(rank);
}

bool channel::is_lost(int rank) noexcept {
  if (shared.is_gone(rank)) return true;
  const std::lock_guard lock(lists_lock_);
  return missed_[static_cast<std::size_t>(rank)];
}

// Of a rank that took leave, once, when nothing of it is on its way any more.
void channel::end_receives_from(int rank) noexcept {
  std::atomic<parting>& how = parted_[static_cast<std::size_t>(rank)];
  parting before = parting::not_yet;
  // edge channel.parting: partner is parted_from(), by way of the lock of the matching engine for
  // what is filed meanwhile.
  if (!how.compare_exchange_strong(before, parting::begun, std::memory_order_acq_rel)) return;
  std::size_t ended = 0;
  shared.rcomps.for_each_engine([&](matcher& m) { ended += m.forget(*this, rank); });
  how.store(parting::over, std::memory_order_release);  // edge channel.parting
  if (ended != 0) miss(rank);
}

// Some peer is gone: what waits for it will not complete. Reports each death once per device.
void channel::notice_failures() {
  const std::uint32_t epoch = shared.failure_epoch();
  for (int rank = 0; rank < shared.n; ++rank) {
    if (!shared.is_gone(rank)) continue;
    // Once: it may die meanwhile, also after it took leave of another device.
    const end how = shared.has_died(rank) ? end::died : end::left;
    if (how == end::left && shared.is_all_in(rank)) end_receives_from(rank);
    bool is_told;
    {
      const std::lock_guard lock(lists_lock_);
      if (reported_[static_cast<std::size_t>(rank)] >= how) continue;
      reported_[static_cast<std::size_t>(rank)] = how;
      is_told = missed_[static_cast<std::size_t>(rank)];
    }
    on_peer_gone(*this, rank);
    payloads.on_peer_gone(rank);
    staged.on_peer_gone(rank);
    flags.forget(rank);
    offered.forget(rank);
    if (how == end::died) shared.rcomps.for_each_engine([&](matcher& m) { m.forget(*this, rank); });
    known_offers.forget(rank);
    if (mem::accelerator* const gpu = shared.gpus.running(); gpu != nullptr) gpu->forget(rank);
    std::vector<port*> ports;
    {
      const std::lock_guard lock(ports_lock_);
      ports = ports_;
    }
    for (port* p : ports) p->forget(rank);
    if (how == end::died && !is_told) keep_gone(rank);
  }
  seen_epoch_.store(epoch, std::memory_order_relaxed);
}

}  // namespace lci::proto
