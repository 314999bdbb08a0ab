#include "backends/cuda/atomic_jobs.hpp"

#include <sched.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <utility>

#include "backends/cuda/pointer.hpp"
#include "lci/base/log.hpp"
#include "lci/errors.hpp"
#include "lci/version.hpp"

#ifdef LCI_USE_CUDA
extern const unsigned char lci_atomic_image[];
extern const unsigned long lci_atomic_image_size;
#endif

namespace lci::cuda {

namespace {

constexpr unsigned LOOKS_IN_VAIN = 1024;  // polls that find nothing between two error checks

}  // namespace

std::span<const unsigned char> atomic_image() noexcept {
#ifdef LCI_USE_CUDA
  return {lci_atomic_image, lci_atomic_image_size};
#else
  return {};
#endif
}

void atomic_jobs::chain::add(mem::atomic_job& job) noexcept {
  job.next = nullptr;
  (first == nullptr ? first : last->next) = &job;
  last = &job;
}

mem::atomic_job* atomic_jobs::chain::take_first() noexcept {
  mem::atomic_job* const one = first;
  if (one != nullptr) first = one->next;
  return one;
}

std::size_t atomic_jobs::chain::tell(std::string_view error) noexcept {
  std::size_t told = 0;
  for (; mem::atomic_job* const one = take_first(); ++told) one->on_performed(error);
  return told;
}

// ---- the kernel ----

void atomic_jobs::make_ready() {
  const std::lock_guard lock(making_);
  make_locked();
}

void atomic_jobs::make_locked() {
  if (is_made_.load(std::memory_order_relaxed)) return;  // changed under the lock
  gpu& mine = gpus_.at(ordinal_);
  if (mine.call().module_load_data == nullptr || mine.call().launch_kernel == nullptr)
    throw backend_error(
        "cuda: atomic operations on GPU memory need a kernel, and this driver launches none");
  if (image_.empty())
    throw backend_error(
        "cuda: atomic operations on GPU memory need device code, and this library was built "
        "without: "
        "configure it with -DLCI_USE_CUDA=ON, which needs nvcc");
  gpu_ = &mine;
  context_ = mine.context();
  const context_scope scope(mine.call(), context_);
  check(mine.call(), scope.entered(), "cuCtxPushCurrent", "GPU " + std::to_string(ordinal_));
  try {
    open();
  } catch (...) {
    close();
    throw;
  }
  is_made_.store(true, std::memory_order_release);  // edge cuda.atomics_made
}

// The context is current.
void atomic_jobs::open() {
  const abi::functions& call = gpu_->call();
  const std::string on = "GPU " + std::to_string(ordinal_);
  check(call, call.module_load_data(&module_, image_.data()), "cuModuleLoadData", on);
  check(call, call.module_get_function(&kernel_, module_, atomic_layout::KERNEL),
        "cuModuleGetFunction", on);
  // Under lazy loading this loads the code. A launch that has to do it waits for running kernels.
  int threads = 0;
  check(call,
        call.func_get_attribute(&threads, abi::function_attribute::max_threads_per_block, kernel_),
        "cuFuncGetAttribute", on);
  check(call, call.stream_create(&stream_, abi::STREAM_NON_BLOCKING), "cuStreamCreate", on);
  constexpr std::size_t BYTES = LAUNCHES * sizeof(atomic_layout::batch);
  check(call,
        call.mem_host_alloc(&memory_, BYTES, abi::HOST_ALLOC_PORTABLE | abi::HOST_ALLOC_DEVICE_MAP),
        "cuMemHostAlloc", on + ", " + std::to_string(BYTES) + " bytes");
  std::memset(memory_, 0, BYTES);  // no launch has number 0
  abi::device_ptr at = 0;
  check(call, call.mem_host_get_device_pointer(&at, memory_, 0), "cuMemHostGetDevicePointer", on);
  for (std::size_t i = 0; i < LAUNCHES; ++i) {
    batches_[i].shared = static_cast<atomic_layout::batch*>(memory_) + i;
    batches_[i].at_gpu =
        reinterpret_cast<atomic_layout::batch*>(static_cast<std::uintptr_t>(at)) + i;
  }
}

// The context is current, or lost.
void atomic_jobs::close() noexcept {
  const abi::functions& call = gpu_->call();
  if (stream_ != nullptr) {
    // A kernel that is told of as ended may not have left yet.
    while (call.stream_query(stream_) == abi::result::not_ready) sched_yield();
    log_teardown(call, call.stream_destroy(stream_), "cuStreamDestroy");
  }
  if (memory_ != nullptr) log_teardown(call, call.mem_free_host(memory_), "cuMemFreeHost");
  if (module_ != nullptr) log_teardown(call, call.module_unload(module_), "cuModuleUnload");
  stream_ = nullptr;
  memory_ = nullptr;
  module_ = nullptr;
}

atomic_jobs::~atomic_jobs() {
  if (!is_made_.load(std::memory_order_relaxed)) return;  // no other thread is here any more
  const context_scope scope(gpu_->call(), context_);
  const bool is_lost = scope.entered() != abi::result::success;
  if (is_lost) module_ = nullptr;  // lost with its context
  // Jobs of a device that did not wait for them.
  while (!is_lost && gpu_->call().stream_query(stream_) == abi::result::not_ready) sched_yield();
  collect_locked();
  for (batch& each : batches_)
    for (std::uint32_t i = 0; i < each.count; ++i) failed_.add(*each.jobs[i]);
  while (mem::atomic_job* const one = gathered_.take_first()) failed_.add(*one);
  ended_.tell("");
  failed_.tell("the runtime has ended");
  close();
}

std::string_view atomic_jobs::why_not_ready() noexcept try {
  // edge cuda.atomics_made: the kernel and the batches are seen as made.
  if (is_made_.load(std::memory_order_acquire)) return "";
  const std::lock_guard lock(making_);
  if (!cannot_.empty()) return cannot_;
  try {
    make_locked();
  } catch (const std::exception& error) {
    cannot_ = error.what();
  }
  return cannot_;
} catch (...) {
  return "cuda: there is no memory for what atomic operations need";
}

// ---- jobs ----

std::string_view atomic_jobs::add(mem::atomic_job& job) noexcept {
  if (const std::string_view why_not = why_not_ready(); !why_not.empty()) return why_not;
  open_.fetch_add(1, std::memory_order_relaxed);  // a number only; before the job can end
  {
    const std::lock_guard lock(lock_);
    gathered_.add(job);
  }
  launch();
  return "";
}

// A free batch with what was gathered. Null: none is free, or nothing was.
atomic_jobs::batch* atomic_jobs::fill() noexcept {
  const std::lock_guard lock(lock_);
  if (gathered_.first == nullptr || broken_) return nullptr;
  const auto free = std::find_if(batches_.begin(), batches_.end(),
                                 [](const batch& each) { return each.count == 0; });
  if (free == batches_.end()) return nullptr;
  while (free->count < atomic_layout::MOST && gathered_.first != nullptr) {
    mem::atomic_job& job = *gathered_.take_first();
    free->shared->requests[free->count] = {as_device(job.at), job.change, 0};
    free->jobs[free->count++] = &job;
  }
  if (++free->number == 0) free->number = 1;  // what the word is at the start
  return &*free;
}

void atomic_jobs::launch() noexcept {
  while (batch* const mine = fill()) {
    const context_scope scope(gpu_->call(), context_);
    failure error{scope.entered(), "cuCtxPushCurrent"};
    if (!error) {
      atomic_layout::arguments arguments{mine->at_gpu, mine->count, mine->number};
      void* all[] = {&arguments};
      error = {gpu_->call().launch_kernel(kernel_, 1, 1, 1, atomic_layout::MOST, 1, 1, 0, stream_,
                                          all, nullptr),
               "cuLaunchKernel"};
    }
    chain unwanted;
    {
      const std::lock_guard lock(lock_);
      mine->is_launched = !error;
      if (error) {
        for (std::uint32_t i = 0; i < mine->count; ++i) unwanted.add(*mine->jobs[i]);
        mine->count = 0;
      }
    }
    if (!error) continue;
    fail(unwanted, error);
    if (!is_of_one_call(error.kind())) give_up(error);
  }
  // What was added after the GPU had been given up.
  chain late;
  failure why;
  {
    const std::lock_guard lock(lock_);
    why = broken_;
    if (broken_) late = std::exchange(gathered_, {});
  }
  if (late.first != nullptr) fail(late, why);
}

// They are told by the next poll().
void atomic_jobs::fail(chain jobs, const failure& why) noexcept {
  std::string text;
  try {
    text = text_of(gpu_->call(), why, "GPU " + std::to_string(ordinal_));
  } catch (...) {  // the reason is lost
  }
  const std::lock_guard lock(lock_);
  problem_.swap(text);
  while (mem::atomic_job* const one = jobs.take_first()) failed_.add(*one);
}

void atomic_jobs::collect_locked() noexcept {
  for (batch& each : batches_) {
    // edge cuda.atomics, other side in the GPU: the answers, which the kernel wrote before; partner
    // is the end of device/atomic_words.cu.
    if (each.count == 0 || !each.is_launched ||
        std::atomic_ref(each.shared->done).load(std::memory_order_acquire) != each.number)
      continue;
    for (std::uint32_t i = 0; i < each.count; ++i) {
      each.jobs[i]->old = each.shared->requests[i].old;
      ended_.add(*each.jobs[i]);
    }
    each.is_launched = false;
    each.count = 0;
  }
}

std::size_t atomic_jobs::poll() noexcept {
  // A number only: a job that is not seen yet is seen by the next poll.
  if (open_.load(std::memory_order_relaxed) == 0 || !lock_.try_lock()) return 0;
  collect_locked();
  chain ended = std::exchange(ended_, {});
  chain failed = std::exchange(failed_, {});
  std::string problem;
  if (failed.first != nullptr) problem.swap(problem_);
  const bool is_more = gathered_.first != nullptr;
  const bool is_examination = ended.first == nullptr && ++idle_looks_ % LOOKS_IN_VAIN == 0;
  lock_.unlock();
  std::size_t told = ended.tell("");
  if (failed.first != nullptr) told += failed.tell(problem.empty() ? "a GPU failed" : problem);
  open_.fetch_sub(told, std::memory_order_relaxed);  // a number only
  if (is_more) launch();
  if (is_examination) examine();
  return told;
}

// Looks for errors that would keep the words from ever changing.
void atomic_jobs::examine() noexcept {
  const context_scope scope(gpu_->call(), context_);
  if (scope.entered() != abi::result::success)
    return give_up({scope.entered(), "cuCtxPushCurrent"});
  const abi::result answer = gpu_->call().stream_query(stream_);
  // Through: the word is there, and the next poll() sees it.
  if (answer != abi::result::not_ready && answer != abi::result::success)
    give_up({answer, "cuStreamQuery"});
}

// No kernel runs any more, and the GPU touches nothing.
void atomic_jobs::give_up(const failure& why) noexcept {
  chain unwanted;
  {
    const std::lock_guard lock(lock_);
    if (!broken_) broken_ = why;
    collect_locked();
    for (batch& each : batches_) {
      if (!each.is_launched) continue;
      for (std::uint32_t i = 0; i < each.count; ++i) unwanted.add(*each.jobs[i]);
      each.is_launched = false;
      each.count = 0;
    }
    while (mem::atomic_job* const one = gathered_.take_first()) unwanted.add(*one);
  }
  if (unwanted.first != nullptr) fail(unwanted, why);
}

}  // namespace lci::cuda
