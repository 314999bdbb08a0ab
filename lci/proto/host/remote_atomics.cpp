#include "lci/proto/host/remote_atomics.hpp"

#include <mutex>
#include <new>
#include <string>
#include <utility>

#include "lci/base/log.hpp"
#include "lci/base/spin.hpp"
#include "lci/errors.hpp"
#include "lci/mem/memory_domain.hpp"
#include "lci/proto/host/host_context.hpp"
#include "lci/wqe/apply_change.hpp"

namespace lci::proto {

using wire::atomic_result;

static_assert(static_cast<std::uint32_t>(atomic_outcome::failed) ==
              static_cast<std::uint32_t>(atomic_result::failed));

std::string_view text_of(atomic_outcome how) noexcept {
  switch (how) {
    case atomic_outcome::done:
      return "done";
    case atomic_outcome::bad_key:
      return "the key names no region of that rank, or not any more";
    case atomic_outcome::out_of_bounds:
      return "the word is not inside the region";
    case atomic_outcome::misaligned:
      return "the word is not aligned to its size";
    case atomic_outcome::not_possible:
      return "that rank's process has no atomic operations on its GPU memory";
    case atomic_outcome::failed:
      return "that rank's GPU could not perform it";
    case atomic_outcome::peer_lost:
      return "that rank has ended";
    case atomic_outcome::device_freed:
      return "the device was freed before the answer came";
  }
  return "?";
}

remote_atomics::remote_atomics(host_context& host)
    : host_(host), self_(std::make_shared<owner>(this, host.engine.shared)) {
  host.engine.add_part(*this);
  control_dispatch& to = host.engine.dispatch;
  to.add<wire::atomic, &remote_atomics::on_request>(wire::kind::atomic, *this);
  to.add<wire::atomic_end, &remote_atomics::on_answer>(wire::kind::atomic_end, *this);
}

// A GPU has no job any more, unless freeing the device has given up: then they lose their home.
remote_atomics::~remote_atomics() {
  for (base::spin_wait wait;; wait()) {
    const std::lock_guard lock(self_->lock);
    self_->home = nullptr;
    if (self_->inside == 0) break;
  }
  std::uint32_t from = 0;
  while (atomic_request* const one = take_any_of(-1, from)) end(*one, atomic_outcome::device_freed);
  while (unsent_ != nullptr) delete std::exchange(unsent_, unsent_->next_job);
  while (free_jobs_ != nullptr) delete std::exchange(free_jobs_, free_jobs_->next_job);
}

// ---- the asking side ----

errorcode_t remote_atomics::start(atomic_request& request) {
  const int rank = request.rank;
  progress_engine& engine = host_.engine;
  if (rank < 0 || rank >= engine.shared.n)
    throw argument_error("an atomic operation names rank " + std::to_string(rank) + " of " +
                         std::to_string(engine.shared.n));
  const wire::atomic body{{}, request.region, request.offset, request.change};
  if (!wire::is_sound(body))
    throw argument_error("an atomic operation of kind " + std::to_string(request.change.what) +
                         " on " + std::to_string(request.change.size) + " bytes does not exist");
  if (engine.watch.has_ended(rank)) [[unlikely]]
    return errorcode_t::fatal;
  wire::atomic said = body;
  try {
    const std::lock_guard lock(lock_);
    said.requester = open_.insert(waiting{&request, rank, request.change.size}).name;
  } catch (const std::bad_alloc&) {
    return errorcode_t::retry_nomem;
  }
  engine.open.add(1);
  errorcode_t code = engine.control.try_control(rank, wire::kind::atomic, said);
  // Once it is sent the request may have ended. The search for what a peer leaves behind may have
  // come before it was entered.
  if (code == errorcode_t::done) {
    if (!engine.watch.has_ended(rank)) [[likely]]
      return errorcode_t::posted;
    code = errorcode_t::fatal;
  }
  if (take(said.requester, rank) == nullptr) return errorcode_t::posted;  // the search has ended it
  engine.open.add(-1);
  return is_retry(code) ? code : errorcode_t::fatal;
}

atomic_request* remote_atomics::take(wire::name of, int rank) noexcept {
  const std::lock_guard lock(lock_);
  const waiting* const found = open_.find(of);
  if (found == nullptr || found->rank != rank) return nullptr;
  atomic_request* const request = found->request;
  open_.erase(of);
  return request;
}

// From that slot on, which moves behind what was found.
atomic_request* remote_atomics::take_any_of(int rank, std::uint32_t& from) noexcept {
  const std::lock_guard lock(lock_);
  for (const std::uint32_t slots = open_.slots(); from < slots; ++from) {
    const wire::name name = open_.name_at(from);
    const waiting* const found = open_.find(name);
    if (found == nullptr || (rank >= 0 && found->rank != rank)) continue;
    atomic_request* const request = found->request;
    open_.erase(name);
    return request;
  }
  return nullptr;
}

// Counted until its owner has been told, for which the thread that frees the device waits.
void remote_atomics::end(atomic_request& request, atomic_outcome how) noexcept {
  request.on_atomic(how);
  host_.engine.open.add(-1);
}

void remote_atomics::on_answer(int rank, const wire::atomic_end& body) noexcept {
  atomic_request* const request = take(body.requester, rank);
  if (request == nullptr) return host_.engine.dropped.add(1);
  request->old = body.old;
  end(*request, static_cast<atomic_outcome>(body.result));
}

void remote_atomics::on_peer_ended(int rank, peer_end how) noexcept {
  // Before, its answer may be what is still to be read.
  if (how < peer_end::all_here) return;
  std::uint32_t from = 0;
  while (atomic_request* const one = take_any_of(rank, from)) end(*one, atomic_outcome::peer_lost);
}

// Numbers only, and without the lock: kept if the name is still its own afterwards.
void remote_atomics::report(base::report::sheet& to) noexcept {
  if (open_.size() == 0) return;
  const std::uint32_t slots = open_.slots();
  for (std::uint32_t i = 0; i < slots; ++i) {
    const wire::name name = open_.name_at(i);
    const waiting* const found = open_.find(name);
    if (found == nullptr) continue;
    const waiting copy = *found;
    if (open_.find(name) != found) continue;
    base::report::record* const r = to.add(base::report::kind::atomic);
    if (r == nullptr) return;
    r->rank = copy.rank;
    r->size = copy.size;
  }
}

// ---- the asked side ----

void remote_atomics::on_request(int rank, const wire::atomic& body) {
  // First, so that nothing is performed which cannot be answered.
  job& mine = make_job();
  mine.rank = rank;
  mine.answer = {};
  mine.answer.requester = body.requester;
  if (perform(mine, body)) reply(mine);
}

bool remote_atomics::perform(job& mine, const wire::atomic& body) noexcept {
  const auto refuse = [&mine](atomic_result why) {
    mine.answer.result = why;
    return true;
  };
  const auto found =
      host_.engine.shared.regions.look_up({body.region.slot, body.region.generation});
  if (!found) return refuse(atomic_result::bad_key);
  const std::size_t size = body.change.size;
  if (body.offset > found->size || size > found->size - body.offset)
    return refuse(atomic_result::out_of_bounds);
  std::byte* const at = static_cast<std::byte*>(found->address) + body.offset;
  if (reinterpret_cast<std::uintptr_t>(at) % size != 0) return refuse(atomic_result::misaligned);
  if (found->kind == mem::mem_kind::host) [[likely]] {
    mine.answer.old = wqe::apply(body.change, static_cast<void*>(at));
    return true;
  }
  mine.at = at;
  mine.device = mem::find_place(at).device;
  mine.change = body.change;
  host_.engine.shared.expect(1);
  const std::string_view why_not = host_.accelerator->change_word(mine);
  if (why_not.empty()) return false;
  host_.engine.shared.expect(-1);
  base::log::info("proto", "an atomic operation of rank %d on GPU memory is refused: %.*s",
                  mine.rank, static_cast<int>(why_not.size()), why_not.data());
  return refuse(atomic_result::not_possible);
}

void remote_atomics::job::on_performed(std::string_view error) noexcept {
  const std::shared_ptr<owner> whose = of;
  remote_atomics* home;
  {
    const std::lock_guard lock(whose->lock);
    home = whose->home;
    if (home != nullptr) ++whose->inside;
  }
  answer.old = old;
  if (!error.empty()) {
    answer.result = atomic_result::failed;
    base::log::warn("proto", "an atomic operation of rank %d on GPU memory failed: %.*s", rank,
                    static_cast<int>(error.size()), error.data());
  }
  if (home == nullptr) {
    delete this;  // no other thread has it
  } else {
    home->reply(*this);
    const std::lock_guard lock(whose->lock);
    --whose->inside;
  }
  whose->shared.expect(-1);
}

void remote_atomics::reply(job& mine) noexcept {
  progress_engine& engine = host_.engine;
  if (engine.watch.has_ended(mine.rank) ||
      engine.control.accept_control(mine.rank, wire::kind::atomic_end, mine.answer))
    return free(mine);
  count_waiting(1);
  engine.expect_leftovers(1);
  const std::lock_guard lock(lock_);
  mine.next_job = std::exchange(unsent_, &mine);
}

std::size_t remote_atomics::serve_waiting() noexcept {
  job* all;
  {
    const std::lock_guard lock(lock_);
    all = std::exchange(unsent_, nullptr);
  }
  std::size_t served = 0;
  for (; all != nullptr; ++served) {
    job& one = *std::exchange(all, all->next_job);
    count_waiting(-1);
    host_.engine.expect_leftovers(-1);
    reply(one);
  }
  return served;
}

bool remote_atomics::is_quiet() const noexcept {
  const std::lock_guard lock(lock_);
  return jobs_out_ == 0;
}

remote_atomics::job& remote_atomics::make_job() {
  {
    const std::lock_guard lock(lock_);
    ++jobs_out_;
    if (free_jobs_ != nullptr) return *std::exchange(free_jobs_, free_jobs_->next_job);
    --jobs_out_;
  }
  job* const made = new job;
  made->of = self_;
  const std::lock_guard lock(lock_);
  ++jobs_out_;
  return *made;
}

void remote_atomics::free(job& one) noexcept {
  const std::lock_guard lock(lock_);
  one.next_job = std::exchange(free_jobs_, &one);
  --jobs_out_;
}

}  // namespace lci::proto
