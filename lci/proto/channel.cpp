#include "lci/proto/channel.hpp"

#include <sched.h>

#include <new>
#include <utility>

#include "lci/base/spin.hpp"
#include "lci/comp/signal.hpp"
#include "lci/proto/arrival.hpp"
#include "lci/proto/matcher.hpp"

namespace lci::proto {

namespace {

// Messages of the protocols that can wait although there is no memory.
constexpr std::size_t CONTROL_SPARES = 32;
constexpr std::size_t FIRST_PROBLEMS = 16;

}  // namespace

channel::channel(core& c, net::fabric& f, int index, const net::device_config& wanted,
                 mem::packet_pool& p, std::size_t piece)
    : shared(c),
      fabric(f),
      pool(p),
      max_piece(piece),
      config(wanted),
      control(*this, nullptr, CONTROL_SPARES),
      device_(f.make_device(index, config)),
      reported_(static_cast<std::size_t>(c.n)),
      missed_(static_cast<std::size_t>(c.n)),
      to_miss_(static_cast<std::size_t>(c.n)),
      concerned_(static_cast<std::size_t>(c.n)),
      has_ended_(static_cast<std::size_t>(c.n)),
      parted_(static_cast<std::size_t>(c.n)) {
  control.attach(device_->make_control_endpoint());
  ports_.push_back(&control);
  problems_.reserve(FIRST_PROBLEMS);
  shared.enter(*this);
}

channel::~channel() {
  shared.leave(*this);
  shared.streams.forget(this);
  while (answers_ != nullptr) {
    message& request = *std::exchange(answers_, answers_->pool_next);
    receive& to = *request.met;
    if (to.via == this) {
      abandon(to.user.comp);
    } else if (shared.has(*to.via)) {  // the call that posted it may wait for it
      to.via->open_receives.add(-1);
      to.via->keep(std::make_exception_ptr(std::bad_alloc()));
      to.via->fail(to.user);
    }
    shared.receives.put(&to);
    shared.messages.put(&request);
  }
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
    work += drain_backlogs() + staged.serve_waiting() + payloads.serve_waiting() + serve_answers();
  return work;
}

void channel::answer_later(receive& to, message& request) noexcept {
  request.met = &to;
  expect_leftovers(1);
  const std::lock_guard lock(lists_lock_);
  request.pool_next = answers_;
  answers_ = &request;
}

// Those that are there now.
std::size_t channel::serve_answers() noexcept {
  message* all;
  {
    const std::lock_guard lock(lists_lock_);
    all = std::exchange(answers_, nullptr);
  }
  std::size_t served = 0;
  for (; all != nullptr; ++served) {
    message& request = *std::exchange(all, all->pool_next);
    expect_leftovers(-1);
    give_answer(*request.met, request);
  }
  return served;
}

std::size_t channel::move_streams() {
  return shared.streams.advance([this](std::exception_ptr problem) { keep(std::move(problem)); });
}

std::size_t channel::drain_backlogs() noexcept {
  std::size_t moved = 0;
  for (std::size_t i = 0; port* const p = port_at(i); ++i)
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
  if (user.comp == nullptr) return;
  if (user.is_waiter)
    static_cast<waiter*>(user.comp)->fail();
  else if (user.comp->attr.serial != user.serial)
    return;  // it was freed
  else if (is_by_loss && user.comp->attr.comp_type != detail::LIBRARY_COMP)
    comp::lose(user.comp, rank, user.number);
  else
    abandon(user.comp);
}

void abandon(comp_impl_t* comp) noexcept {
  if (comp != nullptr && comp->attr.comp_type == detail::LIBRARY_COMP)
    static_cast<detail::library_comp_t*>(comp)->lose();
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
  signal_now(&to, status, what, is_completion);
}

void channel::signal_now(comp_impl_t* to, const status_t& status, news what,
                         bool is_completion) noexcept {
  try {
    comp::signal(to, status);
  } catch (const comp::freed_error& error) {
    keep_made([&] { return freed_too_early(status, what, error.what()); });
  } catch (const std::bad_alloc&) {
    // A queue could not grow. What code of the program throws is the program's.
    if (to->attr.comp_type == attr_comp_type_t::cq &&
        handlers.add(*to, status, is_completion, what))
      return;
    keep(std::current_exception());
  } catch (...) {
    keep(std::current_exception());
  }
}

void channel::keep_freed(const comp_impl_t* to, const status_t& status, news what) noexcept {
  keep_made([&] { return freed_too_early(status, what, comp::freed_text(to).c_str()); });
}

}  // namespace lci::proto
