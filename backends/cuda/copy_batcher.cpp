#include "backends/cuda/copy_batcher.hpp"

#include <cstring>
#include <exception>
#include <utility>

#include "backends/cuda/pointer.hpp"
#include "lci/base/log.hpp"

namespace lci::cuda {

namespace {

using store_array = std::array<flag_write, lane::STORES>;

// Words from host memory, which the stream can write without reading them: their values are those
// of now. False: not all of these are such words, or they are too many.
bool as_stores(std::span<const copy> copies, store_array& out) noexcept {
  if (copies.size() > out.size()) return false;
  for (std::size_t i = 0; i < copies.size(); ++i) {
    const copy& one = copies[i];
    if ((one.size != 4 && one.size != 8) || one.to % one.size != 0) return false;
    out[i] = {one.to, 0, static_cast<unsigned>(one.size)};
    // Little endian: the low half comes first.
    std::memcpy(&out[i].value, reinterpret_cast<const void*>(one.from), one.size);
  }
  return true;
}

}  // namespace

copy_batcher::copy_batcher(gpu_list& gpus, int ordinal, const copier_limits& limits,
                           const resident_options& wanted) noexcept
    : gpus_(gpus), ordinal_(ordinal), limits_(limits), wanted_(wanted) {
  for (std::size_t i = 0; i < roads_.size(); ++i) {
    roads_[i].way = static_cast<direction>(i / 2);
    roads_[i].is_large = i % 2 != 0;
  }
  for (batch& each : batches_) {
    each.owner = this;
    free_locked(each);  // no other thread can be here yet
  }
}

// The copier, made now if there is none. Null: another thread makes it, or it cannot be made, and
// then what was gathered is refused. The next job tries again: memory may be there by then.
copier* copy_batcher::ready() noexcept {
  // edge cuda.copier_made: the copier is seen as made; partner is the store below.
  if (copier* const made = copier_.load(std::memory_order_acquire)) return made;
  const std::unique_lock lock(making_, std::try_to_lock);
  if (!lock) return nullptr;
  if (owned_) return owned_.get();
  try {
    owned_ = std::make_unique<copier>(gpus_.at(ordinal_), limits_);
    make_resident_locked();
    copier_.store(owned_.get(), std::memory_order_release);  // edge cuda.copier_made
  } catch (const std::exception& error) {
    refuse_all(error.what());
  }
  return owned_.get();
}

// Needs making_. Without the kernel everything goes by the copy engine.
void copy_batcher::make_resident_locked() noexcept {
  if (wanted_.blocks == 0) return;
  try {
    owned_kernel_ = std::make_unique<resident>(gpus_.at(ordinal_), wanted_);
    kernel_.store(owned_kernel_.get(), std::memory_order_release);  // edge cuda.resident_made
  } catch (const std::exception& error) {
    base::log::warn("cuda", "GPU %d works without its resident copy kernel: %s", ordinal_,
                    error.what());
  }
}

void copy_batcher::rest() noexcept {
  if (resident* const one = kernel()) one->stop();
}

void copy_batcher::refuse_all(const char* why) noexcept {
  std::string text(why);
  const std::lock_guard lock(lock_);
  for (road& on : roads_) refused_.append(std::exchange(on.gathered, {}));
  refusal_.swap(text);
}

copy_batcher::road& copy_batcher::road_of(const mem::copy_job& job) noexcept {
  const std::size_t is_large = job.size > limits_.small_max ? 1 : 0;
  return roads_[2 * static_cast<std::size_t>(job.way) + is_large];
}

bool copy_batcher::add_flagged(mem::copy_job& job, const flag_write& flag) noexcept {
  copier* const to = ready();
  if (to == nullptr) return false;
  if (resident* const one = kernel(); one != nullptr && one->take(job, flag)) return true;
  road& on = road_of(job);
  batch* mine = nullptr;
  {
    const std::lock_guard lock(lock_);
    const bool is_first = on.is_large ? on.has_room() : on.under_way == 0;
    if (!is_first || on.gathered.first != nullptr || free_ == nullptr) return false;
    mine = std::exchange(free_, free_->next);
    mine->on = &on;
    mine->is_alone = true;
    mine->jobs.add(job);
    ++on.under_way;
    untold_.store(untold_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }
  const copy one{as_device(job.to), as_device(job.from), job.size};
  if (to->post(on.way, std::span(&one, 1), flag, mine).code == errorcode_t::posted) return true;
  // Also what the driver refuses: it will say so again when the job comes without a flag.
  const std::lock_guard lock(lock_);
  mine->jobs = {};
  --on.under_way;
  untold_.store(untold_.load(std::memory_order_relaxed) - 1, std::memory_order_relaxed);
  free_locked(*mine);
  return false;
}

void copy_batcher::add(mem::copy_job& job) noexcept {
  if (resident* const one = kernel(); one != nullptr && one->take(job, {})) return;
  add_to_copier(job);
}

void copy_batcher::add_to_copier(mem::copy_job& job) noexcept {
  road& on = road_of(job);
  const bool is_large = on.is_large;
  bool goes_now = false;
  {
    const std::lock_guard lock(lock_);
    // No locked instruction: all writers hold the lock.
    untold_.store(untold_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    on.gathered.add(job);
    const bool is_worth_it = is_large || on.under_way == 0 || on.gathered.count >= WORTH_A_POST;
    goes_now = is_worth_it && on.has_room();
  }
  if (!goes_now) return;
  if (copier* const to = ready()) hand_over(*to, on);
}

// The next post of this road, or null when there is nothing to hand over or no room.
copy_batcher::batch* copy_batcher::begin(road& on, copy_array& copies) noexcept {
  const std::lock_guard lock(lock_);
  if (on.gathered.first == nullptr || !on.has_room() || free_ == nullptr) return nullptr;
  batch& next = *free_;
  free_ = next.next;
  next.on = &on;
  ++on.under_way;
  next.is_alone = on.alone > 0;
  if (next.is_alone) --on.alone;
  const std::size_t most = on.is_large || next.is_alone ? 1 : copies.size();
  std::size_t bytes = 0;
  while (next.jobs.count < most && on.gathered.first != nullptr) {
    const mem::copy_job& job = *on.gathered.first;
    if (next.jobs.count > 0 && bytes + job.size > limits_.small_max) break;
    bytes += job.size;
    copies[next.jobs.count] = {as_device(job.to), as_device(job.from), job.size};
    next.jobs.add(*on.gathered.take_first());
  }
  return &next;
}

copy_answer copy_batcher::post(copier& to, std::span<const copy> copies, batch& what) noexcept {
  const direction way = what.on->way;
  store_array stores;
  if (way == direction::to_gpu && to.device().facts().stream_stores && as_stores(copies, stores)) {
    const copy_answer answer = to.post_stores(way, std::span(stores).first(copies.size()), &what);
    if (answer.code != errorcode_t::fatal || answer.error.kind() != fault::refused) return answer;
    // Nothing was begun, and a copy may do.
  }
  return to.post(way, copies, {}, &what);
}

// False: nothing more can go now.
bool copy_batcher::hand_over(copier& to, road& on) noexcept {
  copy_array copies;
  batch* const next = begin(on, copies);
  if (next == nullptr) return false;
  const std::size_t count = next->jobs.count;
  const copy_answer answer = post(to, std::span(copies).first(count), *next);
  switch (answer.code) {
    case errorcode_t::posted:
      return true;  // and may have ended by now: `next` is not ours any more
    case errorcode_t::retry_lock:
    case errorcode_t::retry_nomem:
      put_back(*next, next->is_alone);
      return false;
    default:
      break;
  }
  end(*next, answer.error);
  return true;
}

void copy_batcher::put_back(batch& unwanted, bool one_by_one) noexcept {
  const std::lock_guard lock(lock_);
  put_back_locked(unwanted, one_by_one);
}

void copy_batcher::put_back_locked(batch& unwanted, bool one_by_one) noexcept {
  road& on = *unwanted.on;
  --on.under_way;
  if (one_by_one) on.alone += unwanted.jobs.count;
  on.gathered.prepend(std::exchange(unwanted.jobs, {}));
  free_locked(unwanted);
}

// Called by the copier's poll(), and by hand_over(): tell() has it from here, unless one bad
// address has made the driver refuse all of them. Then the others go without it.
void copy_batcher::end(batch& ended, const failure& why) noexcept {
  const std::lock_guard lock(lock_);
  if (is_of_one_call(why.kind()) && ended.jobs.count > 1) return put_back_locked(ended, true);
  --ended.on->under_way;
  if (why) {
    ended.error = why;
    ended.next = std::exchange(failed_, &ended);
  } else {
    copied_.append(std::exchange(ended.jobs, {}));
    free_locked(ended);
  }
}

void copy_batcher::free_locked(batch& used) noexcept { used.next = std::exchange(free_, &used); }

std::array<bool, 2 * DIRECTIONS> copy_batcher::waiting_roads() noexcept {
  std::array<bool, 2 * DIRECTIONS> found;
  const std::lock_guard lock(lock_);
  for (std::size_t i = 0; i < roads_.size(); ++i)
    found[i] = roads_[i].gathered.first != nullptr && roads_[i].has_room();
  return found;
}

std::size_t copy_batcher::poll() noexcept {
  std::size_t told = 0;
  if (resident* const one = kernel()) {
    copy_job_list unwanted;
    told = one->poll(unwanted);
    while (mem::copy_job* const job = unwanted.take_first()) add_to_copier(*job);
  }
  // A number only: a job that is not seen yet is seen by the next poll.
  if (untold_.load(std::memory_order_relaxed) == 0) return told;
  if (copier* const to = ready()) {
    to->poll();
    const auto waiting = waiting_roads();
    for (std::size_t i = 0; i < roads_.size(); ++i) {
      if (!waiting[i]) continue;
      while (hand_over(*to, roads_[i])) continue;
    }
  }
  return told + tell();
}

std::size_t copy_batcher::tell() noexcept {
  copy_job_list copied, refused;
  std::string refusal;
  batch* failed = nullptr;
  {
    const std::lock_guard lock(lock_);
    copied = std::exchange(copied_, {});
    failed = std::exchange(failed_, nullptr);
    if (refused_.first != nullptr) {
      refused = std::exchange(refused_, {});
      refusal.swap(refusal_);
    }
    std::size_t count = copied.count + refused.count;
    for (const batch* each = failed; each != nullptr; each = each->next) count += each->jobs.count;
    untold_.store(untold_.load(std::memory_order_relaxed) - count, std::memory_order_relaxed);
  }
  std::size_t told = copied.tell("") + refused.tell(refusal);
  while (failed != nullptr) {
    batch& one = *std::exchange(failed, failed->next);
    copy_job_list jobs = std::exchange(one.jobs, {});
    const std::string text = text_of(copier_.load(std::memory_order_relaxed)->device().call(),
                                     one.error, "GPU " + std::to_string(ordinal_));
    {
      const std::lock_guard lock(lock_);
      free_locked(one);
    }
    told += jobs.tell(text);
  }
  return told;
}

}  // namespace lci::cuda
