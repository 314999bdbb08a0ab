#include "backends/cuda/resident.hpp"

#include <sched.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <mutex>
#include <new>
#include <utility>

#include "backends/cuda/pointer.hpp"
#include "lci/base/log.hpp"
#include "lci/errors.hpp"

namespace lci::cuda {

namespace layout = resident_layout;

namespace {

constexpr unsigned LOOKS = 1024;  // polls that find nothing between two error checks

std::uint64_t bit_of(std::size_t which) noexcept { return std::uint64_t{1} << which; }

// The GPU's words. edge cuda.resident, other side in the GPU: what the kernel did before it wrote
// one is seen; partner is announce() and leave() in device/resident.cu.
std::uint32_t read_word(std::uint32_t& word) noexcept {
  return std::atomic_ref(word).load(std::memory_order_acquire);
}

}  // namespace

// edge cuda.command, other side in the GPU: a reader that sees the turn sees the value; partner is
// the kernel's load of a part.
void resident::write_part(layout::part& to, std::uint64_t value, std::uint32_t detail,
                          std::uint32_t turn) noexcept {
  std::atomic_ref(to.value).store(value, std::memory_order_relaxed);  // the next store publishes it
  std::atomic_ref(to.tail).store(detail | std::uint64_t{turn} << 32, std::memory_order_release);
}

resident::resident(gpu& g, const resident_options& options)
    : gpu_(g),
      options_(options),
      to_peer_most_(
          std::min(TO_PEER_MOST, TO_PEER_PER_BLOCK * static_cast<std::size_t>(options.blocks))) {
  turns_.fill(1);
  for (slot& each : slots_) {
    each.owner = this;
    each.signal.of = &each;
  }
  context_ = g.context();
  const context_scope scope(g.call(), context_);
  check(g.call(), scope.entered(), "cuCtxPushCurrent", "GPU " + std::to_string(g.facts().ordinal));
  try {
    open();
  } catch (...) {
    close();
    throw;
  }
}

// The context is current.
void resident::open() {
  const abi::functions& call = gpu_.call();
  const std::string on = "GPU " + std::to_string(gpu_.facts().ordinal);
  check(call, call.module_load_data(&module_, options_.image.data()), "cuModuleLoadData", on);
  check(call, call.module_get_function(&kernel_, module_, layout::KERNEL), "cuModuleGetFunction",
        on);
  // Under lazy loading this loads the code. A launch that has to do it waits for running kernels.
  int threads = 0;
  check(call,
        call.func_get_attribute(&threads, abi::function_attribute::max_threads_per_block, kernel_),
        "cuFuncGetAttribute", on);
  check(call, call.stream_create(&stream_, abi::STREAM_NON_BLOCKING), "cuStreamCreate", on);
  const auto blocks = static_cast<std::size_t>(options_.blocks);
  const std::size_t bytes =
      sizeof(layout_control) + blocks * layout::SLOTS * sizeof(layout::command);
  void* memory = nullptr;
  check(call,
        call.mem_host_alloc(&memory, bytes, abi::HOST_ALLOC_PORTABLE | abi::HOST_ALLOC_DEVICE_MAP),
        "cuMemHostAlloc", on + ", " + std::to_string(bytes) + " bytes");
  std::memset(memory, 0, bytes);  // turn 0 and number 0 are not used
  control_ = static_cast<layout_control*>(memory);
  rings_ = reinterpret_cast<layout::command*>(control_ + 1);
  abi::device_ptr at = 0;
  check(call, call.mem_host_get_device_pointer(&at, memory, 0), "cuMemHostGetDevicePointer", on);
  arguments_.shared = reinterpret_cast<layout_control*>(static_cast<std::uintptr_t>(at));
  arguments_.rings = reinterpret_cast<layout::command*>(arguments_.shared + 1);
  arguments_.idle_ns = options_.idle_ns;
  arguments_.life_ns = options_.life_ns;
}

resident::~resident() {
  stop();
  const context_scope scope(gpu_.call(), context_);
  if (scope.entered() != abi::result::success) module_ = nullptr;  // lost with its context
  close();
}

// The context is current, or lost.
void resident::close() noexcept {
  const abi::functions& call = gpu_.call();
  if (stream_ != nullptr) {
    // The kernel reads pinned memory that is about to go.
    while (call.stream_query(stream_) == abi::result::not_ready) sched_yield();
    log_teardown(call, call.stream_destroy(stream_), "cuStreamDestroy");
  }
  if (control_ != nullptr) log_teardown(call, call.mem_free_host(control_), "cuMemFreeHost");
  if (module_ != nullptr) log_teardown(call, call.module_unload(module_), "cuModuleUnload");
}

void resident::stop() noexcept {
  const std::lock_guard lock(lock_);
  // A word that the kernel looks at now and then; nothing is ordered by it.
  if (state_ == state::launched)
    std::atomic_ref(control_->stop).store(launch_, std::memory_order_relaxed);
}

bool resident::is_fit(const mem::copy_job& job, const flag_write& flag) const noexcept {
  const auto apart =
      reinterpret_cast<std::uintptr_t>(job.to) ^ reinterpret_cast<std::uintptr_t>(job.from);
  if (job.size == 0 || (apart % 16 != 0 && job.size > ASKEW_MOST)) return false;
  if (flag.bytes != 0 && (flag.bytes != 8 || !options_.pinned->contains(
                                                 reinterpret_cast<const void*>(flag.address), 8)))
    return false;
  switch (job.way) {
    case mem::copy_way::to_peer:
      return job.is_in_reach && job.size <= to_peer_most_;
    case mem::copy_way::to_device:
      return job.size <= layout::INLINE ||
             (job.size <= TO_DEVICE_MOST && options_.pinned->contains(job.from, job.size));
    default:
      return job.size <= TO_HOST_MOST && options_.pinned->contains(job.to, job.size);
  }
}

// Whether all blocks look at their rings, as far as one can know.
bool resident::is_running_locked() noexcept {
  return state_ == state::launched && read_word(control_->started) == launch_ &&
         read_word(control_->ended) != launch_;
}

// A free slot, which is the kernel's from now on. Null: it does not run, or has all of them.
resident::slot* resident::begin_locked() noexcept {
  if (!is_running_locked()) {
    const bool is_over = state_ == state::launched && read_word(control_->ended) == launch_;
    // A number only: poll() looks under the lock.
    if (state_ == state::none || is_over) is_wanted_.store(true, std::memory_order_relaxed);
    return nullptr;
  }
  const std::uint64_t busy = busy_.load(std::memory_order_relaxed);
  const std::uint64_t free = ~(busy | away_);
  if (free == 0) return nullptr;
  const auto which = static_cast<std::size_t>(std::countr_zero(free));
  slot& mine = slots_[which];
  ++mine.number;
  if (mine.number == 0) mine.number = 1;  // what a word is at the start
  idle_looks_ = 0;
  busy_.store(busy | bit_of(which), std::memory_order_relaxed);  // a number only
  return &mine;
}

bool resident::take(mem::copy_job& job, const flag_write& flag) noexcept {
  if (!is_fit(job, flag)) return false;
  const std::lock_guard lock(lock_);
  slot* const mine = begin_locked();
  if (mine == nullptr) return false;
  mine->job = &job;
  mine->flag = flag;
  write_locked(number_of(*mine));
  return true;
}

// Puts the job into one ring, or a part of it into each of several.
void resident::write_locked(std::size_t which) noexcept {
  const slot& mine = slots_[which];
  const auto blocks = static_cast<unsigned>(options_.blocks);
  const std::size_t size = mine.job->size;
  const std::size_t wanted = size <= ALONE_MOST ? 1 : (size + SHARE - 1) / SHARE;
  const auto shares = static_cast<unsigned>(std::min<std::size_t>(wanted, blocks));
  const std::size_t each = (size / shares + 127) / 128 * 128;
  // Both are at least 64 KiB where there are several, so that rounding leaves none without bytes.
  for (unsigned i = 0; i < shares; ++i) {
    const std::size_t begin = i * each;
    const std::size_t end = i + 1 == shares ? size : begin + each;
    write_part_locked((next_ring_ + i) % blocks, mine, which, begin, end - begin, shares);
  }
  next_ring_ = (next_ring_ + shares) % blocks;
}

void resident::write_part_locked(unsigned ring, const slot& of, std::size_t which,
                                 std::size_t begin, std::size_t size, unsigned shares) noexcept {
  const mem::copy_job& job = *of.job;
  const std::uint32_t turn = turns_[ring]++;
  layout::part* const parts = rings_[ring * layout::SLOTS + turn % layout::SLOTS].parts;
  unsigned kind = job.way == mem::copy_way::to_device ? layout::FROM_HOST : layout::FROM_GPU;
  std::uint64_t from = as_device(job.from) + begin;
  if (job.way == mem::copy_way::to_device && job.size <= layout::INLINE) {
    kind = layout::FROM_COMMAND;
    from = 0;
    std::memcpy(&from, job.from, job.size);
  }
  const auto detail = static_cast<std::uint32_t>(which | kind << 8);
  write_part(parts[layout::TO], as_device(job.to) + begin, static_cast<std::uint32_t>(size), turn);
  write_part(parts[layout::FROM], from, shares, turn);
  write_part(parts[layout::FLAG], of.flag.bytes == 0 ? 0 : of.flag.address, detail, turn);
  write_part(parts[layout::VALUE], of.flag.value, of.number, turn);
}

// With the job that was in it.
void resident::end_slot_locked(std::size_t which, ended_jobs& to) noexcept {
  const std::uint64_t busy = busy_.load(std::memory_order_relaxed);
  busy_.store(busy & ~bit_of(which), std::memory_order_relaxed);  // a number only
  slot& mine = slots_[which];
  if (mine.job != nullptr) {
    to.copies.add(*std::exchange(mine.job, nullptr));
  } else if (mine.delivery != nullptr) {
    mine.delivery->next = std::exchange(to.deliveries, mine.delivery);
    mine.delivery = nullptr;
  } else {
    mine.atomic->next = std::exchange(to.atomics, mine.atomic);
    mine.atomic = nullptr;
  }
}

void resident::collect_locked(ended_jobs& ended) noexcept {
  for (std::uint64_t left = busy_.load(std::memory_order_relaxed); left != 0; left &= left - 1) {
    const auto which = static_cast<std::size_t>(std::countr_zero(left));
    if (read_word(control_->done[which]) != slots_[which].number) continue;
    if (slots_[which].atomic != nullptr) slots_[which].atomic->old = control_->old[which];
    end_slot_locked(which, ended);
  }
}

// The kernel has ended and touches nothing any more; a copy that it has half done may be done
// again. Other commands have one block, which carries out what it has taken: they were not begun.
void resident::give_back_locked(copy_job_list& unwanted, mem::atomic_job*& atomics,
                                std::uint64_t& signals) noexcept {
  const std::uint64_t busy = busy_.load(std::memory_order_relaxed);
  for (std::uint64_t left = busy; left != 0; left &= left - 1) {
    const auto which = static_cast<std::size_t>(std::countr_zero(left));
    slot& mine = slots_[which];
    if (mine.atomic != nullptr) {
      mine.atomic->next = std::exchange(atomics, mine.atomic);
      mine.atomic = nullptr;
      continue;
    }
    away_ |= bit_of(which);
    if (mine.delivery != nullptr) {
      mine.to = mine.delivery->to;
      mine.from = bytes_of(which, mine.to);
      mine.size = mine.delivery->size;
      mine.device = mine.delivery->device;
      mine.way = mem::copy_way::to_device;
      if (mine.size == 0) {
        signals |= bit_of(which);
        continue;
      }
    } else {
      mine.to = mine.job->to;
      mine.from = mine.job->from;
      mine.size = mine.job->size;
      mine.device = mine.job->device;
      mine.way = mine.job->way;
    }
    unwanted.add(mine);
  }
  busy_.store(0, std::memory_order_relaxed);  // a number only
}

// The copy engine is through.
void resident::slot::on_copied(std::string_view error) noexcept {
  if (delivery != nullptr) {
    const bool is_over = !error.empty() || delivery->what == mem::delivery_job::signal::none;
    return is_over ? end_delivery(error) : raise_signal();
  }
  mem::copy_job* const told = job;
  const flag_write behind = flag;
  {
    const std::lock_guard lock(owner->lock_);
    job = nullptr;
    owner->away_ &= ~bit_of(owner->number_of(*this));
  }
  if (behind.bytes != 0 && error.empty()) {
    // edge cuda.late_flag, other side in the peer (edge flag.set): the bytes, which the copy
    // engine has written, before the flag.
    auto& word = *reinterpret_cast<std::uint64_t*>(static_cast<std::uintptr_t>(behind.address));
    std::atomic_ref(word).store(behind.value, std::memory_order_release);
  }
  told->on_copied(error);
}

std::size_t resident::poll(copy_job_list& unwanted) noexcept {
  const bool is_idle =
      busy_.load(std::memory_order_relaxed) == 0 && !is_wanted_.load(std::memory_order_relaxed);
  if (is_idle || !lock_.try_lock()) return 0;
  ended_jobs ended;
  mem::atomic_job* atomics = nullptr;
  std::uint64_t signals = 0;  // slots, by bit
  // Before the words of the commands: all of them are written before this one.
  const bool has_ended = state_ == state::launched && read_word(control_->ended) == launch_;
  collect_locked(ended);
  if (has_ended) {
    give_back_locked(unwanted, atomics, signals);
    state_ = state::none;
  }
  const bool is_launch = is_wanted_.load(std::memory_order_relaxed) && state_ == state::none;
  const bool is_examination =
      busy_.load(std::memory_order_relaxed) != 0 && ended.is_empty() && ++idle_looks_ % LOOKS == 0;
  lock_.unlock();
  std::size_t told = ended.tell("") + go_elsewhere(atomics, signals);
  if (is_launch) launch();
  if (is_examination) told += examine();
  return told;
}

void resident::launch() noexcept {
  const bool is_alone = !gpu_.is_shared();
  {
    const std::lock_guard lock(lock_);
    if (state_ != state::none) return;  // another thread was faster
    is_wanted_.store(false, std::memory_order_relaxed);
    state_ = is_alone ? state::launched : state::off;
    arguments_.launch = ++launch_;
    std::copy_n(turns_.begin(), options_.blocks, control_->first);
  }
  if (!is_alone) {
    base::log::warn("cuda",
                    "GPU %d works without its resident copy kernel: another process uses the GPU, "
                    "and kernels of two processes take turns of milliseconds",
                    gpu_.facts().ordinal);
    return;
  }
  const context_scope scope(gpu_.call(), context_);
  failure error{scope.entered(), "cuCtxPushCurrent"};
  if (!error) {
    void* all[] = {&arguments_};
    error = {gpu_.call().launch_kernel(kernel_, static_cast<unsigned>(options_.blocks), 1, 1,
                                       layout::THREADS, 1, 1, 0, stream_, all, nullptr),
             "cuLaunchKernel"};
  }
  if (error) give_up(error);
}

// Looks for errors that would keep the words from ever changing.
std::size_t resident::examine() noexcept {
  const context_scope scope(gpu_.call(), context_);
  if (scope.entered() != abi::result::success)
    return give_up({scope.entered(), "cuCtxPushCurrent"});
  const abi::result answer = gpu_.call().stream_query(stream_);
  if (answer == abi::result::not_ready) return 0;
  if (answer != abi::result::success) return give_up({answer, "cuStreamQuery"});
  // It has ended: its last word is there, and the next poll() sees it.
  return 0;
}

// The kernel will not run any more; the GPU touches nothing of what it has taken.
std::size_t resident::give_up(const failure& why) noexcept {
  ended_jobs ended, failed;
  {
    const std::lock_guard lock(lock_);
    if (state_ == state::off) return 0;
    state_ = state::off;
    is_wanted_.store(false, std::memory_order_relaxed);
    collect_locked(ended);
    for (std::uint64_t left = busy_.load(std::memory_order_relaxed); left != 0; left &= left - 1)
      end_slot_locked(static_cast<std::size_t>(std::countr_zero(left)), failed);
  }
  const std::string text = text_of(gpu_.call(), why, "GPU " + std::to_string(gpu_.facts().ordinal));
  base::log::warn("cuda", "the resident copy kernel is not used any more: %s", text.c_str());
  return ended.tell("") + failed.tell(text);
}

}  // namespace lci::cuda
