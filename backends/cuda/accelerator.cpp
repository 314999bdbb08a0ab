#include "backends/cuda/accelerator.hpp"

#include <sched.h>

#include <algorithm>
#include <utility>

#include "backends/cuda/pointer.hpp"
#include "lci/base/log.hpp"
#include "lci/base/undo.hpp"
#include "lci/errors.hpp"

namespace lci::cuda {

accelerator::accelerator(driver& d, pointer_cache& pointers, mem::arena& records,
                         const accelerator_options& options)
    : pointers_(pointers),
      gpus_(d),
      records_(gpus_, pointers, records, options.records, options.descriptors),
      peers_(gpus_, options.calls, &held_),
      atomic_image_(options.atomic_image) {
  d.require();
  for (int i = 0; i < d.gpu_count(); ++i)
    atomics_.push_back(std::make_unique<atomic_jobs>(gpus_, i, atomic_image_));
  for (int i = 0; i <= d.gpu_count(); ++i)
    jobs_.push_back(std::make_unique<copy_batcher>(gpus_, i, options.limits, resident_));
  resident_.image = options.resident_image;
  resident_.pinned = &pinned_;
  resident_.words = this;
}

accelerator::~accelerator() {
  // edge cuda.jobs_told: what on_copied did is over; partner is the end of poll().
  while (under_way_.load(std::memory_order_acquire) != 0) {
    if (poll() == 0) sched_yield();
  }
  while (void* const at = pinned_.any()) unpin(at);
}

void accelerator::keep_resident(int blocks) {
  if (blocks != 0 && resident_.image.empty())
    throw backend_error(
        "cuda: gpu_resident asks for a copy kernel, and this library was built without device "
        "code: "
        "configure it with -DLCI_USE_CUDA=ON, which needs nvcc");
  if (blocks != 0 && gpus_.get_driver().call().launch_kernel == nullptr)
    throw backend_error("cuda: gpu_resident asks for a kernel, and this driver launches none");
  resident_.blocks = blocks;
}

mem::cpu_copy_limits accelerator::allow_cpu_copies(attr_gpu_gdrcopy_t wanted) {
  if (wanted == attr_gpu_gdrcopy_t::off) return {};
  const std::span<const char* const> libraries = gpus_.get_driver().mapping_libraries();
  if (libraries.empty() && wanted == attr_gpu_gdrcopy_t::on)
    throw backend_error("cuda: gpu_gdrcopy is on, but there is no gdrcopy for these GPUs");
  if (libraries.empty()) return {};
  if (auto made = make_cpu_copy(gpus_, libraries, wanted)) {
    cpu_copy_ = std::move(made);
    return {READ_BY_CPU, WRITE_BY_CPU};
  }
  return {};
}

// Memory of other kinds is not pinned (a pool), or may be mapped anew at the same address (VMM).
static bool has_mappings(const classified& found) noexcept {
  return !found.error && found.what.kind == allocation_kind::device;
}

bool accelerator::read_by_cpu(std::byte* to, const std::byte* from, std::size_t size) noexcept {
  if (cpu_copy_ == nullptr) return false;
  const classified found = pointers_.find(from);
  return has_mappings(found) && cpu_copy_->read(found.what, to, as_device(from), size);
}

bool accelerator::write_by_cpu(std::byte* to, const std::byte* from, std::size_t size) noexcept {
  if (cpu_copy_ == nullptr) return false;
  const classified found = pointers_.find(to);
  return has_mappings(found) && cpu_copy_->write(found.what, as_device(to), from, size);
}

// What comes next waits for the GPU.
void accelerator::rest() noexcept {
  for (const auto& each : jobs_) each->rest();
}

void accelerator::tidy() noexcept {
  rest();
  peers_.tidy();
}

// Which GPU to use where any will do: one that is in use.
void accelerator::note_use(int device) noexcept {
  if (used_.load(std::memory_order_relaxed) < 0 && device >= 0)
    used_.store(device, std::memory_order_relaxed);  // whichever thread is last
}

gpu& accelerator::any_gpu() {
  const int used = used_.load(std::memory_order_relaxed);
  return gpus_.at(used < 0 ? 0 : used);
}

void accelerator::copy(mem::copy_job& job) noexcept {
  const std::size_t nowhere = jobs_.size() - 1;
  const auto index = static_cast<std::size_t>(job.device);  // -1 is large
  if (index < nowhere) note_use(job.device);
  under_way_.fetch_add(1, std::memory_order_relaxed);  // before the job can end
  jobs_[std::min(index, nowhere)]->add(job);
}

bool accelerator::copy_and_flag(mem::copy_job& job, std::uint64_t* flag,
                                std::uint64_t value) noexcept {
  const auto index = static_cast<std::size_t>(job.device);  // -1 is large
  if (index >= jobs_.size() - 1) return false;
  note_use(job.device);
  under_way_.fetch_add(1, std::memory_order_relaxed);  // before the job can end
  if (jobs_[index]->add_flagged(job, {as_device(flag), value, sizeof(value)})) return true;
  under_way_.fetch_sub(1, std::memory_order_relaxed);
  return false;
}

void accelerator::prepare_atomics(int device) {
  if (device < 0 || static_cast<std::size_t>(device) >= atomics_.size())
    throw backend_error("cuda: there is no GPU " + std::to_string(device));
  note_use(device);
  atomics_[static_cast<std::size_t>(device)]->make_ready();
  if (resident_.blocks != 0) jobs_[static_cast<std::size_t>(device)]->make_ready();
}

std::string_view accelerator::atomic(mem::atomic_job& job) noexcept {
  const auto index = static_cast<std::size_t>(job.device);  // -1 is large
  if (index >= atomics_.size()) return "cuda: there is no such GPU";
  note_use(job.device);
  under_way_.fetch_add(1, std::memory_order_relaxed);  // before the job can end
  if (jobs_[index]->perform(job)) return "";
  const std::string_view why_not = atomics_[index]->add(job);
  if (!why_not.empty()) under_way_.fetch_sub(1, std::memory_order_relaxed);
  return why_not;
}

bool accelerator::deliver(mem::delivery_job& job) noexcept {
  const auto index = static_cast<std::size_t>(job.device);  // -1 is large
  if (index >= atomics_.size()) return false;
  note_use(job.device);
  under_way_.fetch_add(1, std::memory_order_relaxed);  // before the job can end
  if (jobs_[index]->deliver(job)) return true;
  under_way_.fetch_sub(1, std::memory_order_relaxed);
  has_missed_.store(true, std::memory_order_relaxed);  // a hint
  return false;
}

std::size_t accelerator::poll() noexcept {
  // A number only: a job that is not seen yet is seen by the next poll.
  // A hint too: which deliveries it was for does not matter.
  const bool has_missed = has_missed_.load(std::memory_order_relaxed);
  if (under_way_.load(std::memory_order_relaxed) == 0 && !has_missed) return 0;
  if (has_missed) has_missed_.store(false, std::memory_order_relaxed);
  std::size_t told = 0;
  for (const auto& each : jobs_) told += each->poll();
  for (const auto& each : atomics_) told += each->poll();
  // edge cuda.jobs_told: partner is the destructor.
  if (told != 0) under_way_.fetch_sub(told, std::memory_order_release);
  return told;
}

mem::share_place accelerator::share(const void* at, std::size_t size, std::string& why_not) {
  return records_.share(at, size, why_not);
}

void accelerator::hold_share(const mem::share_place& place, int change) noexcept {
  records_.hold(place, change);
}

mem::mapped_memory accelerator::map(const mem::peer_range& what, int device, std::string& why_not) {
  mem::mapped_memory found = peers_.map(what, device, why_not);
  if (found) note_use(device);
  return found;
}

bool accelerator::has_peer_atomics(const mem::peer_range& what, int device) noexcept {
  return peers_.has_atomics(what, device);
}

void accelerator::forget(int rank) noexcept { peers_.forget(rank); }

std::string accelerator::pin(void* at, std::size_t size) {
  try {
    gpu& g = any_gpu();
    const context_scope scope(g.call(), g.context());
    failure error{scope.entered(), "cuCtxPushCurrent"};
    // Portable: every GPU of the process may use it.
    if (!error)
      error = {g.call().mem_host_register(
                   at, size, abi::HOST_REGISTER_PORTABLE | abi::HOST_REGISTER_DEVICE_MAP),
               "cuMemHostRegister"};
    if (error.code == abi::result::host_memory_already_registered) return "";
    if (error) {
      return text_of(g.call(), error, std::to_string(size) + " bytes of host memory");
    }
    base::undo registered([&]() noexcept {
      log_teardown(g.call(), g.call().mem_host_unregister(at), "cuMemHostUnregister");
    });
    pinned_.add(at, size);
    registered.keep();
    return "";
  } catch (const backend_error& error) {
    return error.what();
  }
}

void accelerator::unpin(void* at) noexcept try {
  if (!pinned_.remove(at)) return;
  rest();
  gpu& g = any_gpu();
  const context_scope scope(g.call(), g.context());
  if (scope.entered() != abi::result::success) return;  // lost, and the registration with it
  log_teardown(g.call(), g.call().mem_host_unregister(at), "cuMemHostUnregister");
} catch (const std::exception& error) {
  base::log::warn("cuda", "host memory stays registered: %s", error.what());
}

bool accelerator::is_captured(void* stream) {
  int ordinal = -1;
  const bool captured = words_.is_captured(stream, ordinal);
  note_use(ordinal);
  // Code that is loaded later, with the first message, would wait for the streams, and they for it.
  if (resident_.blocks != 0) jobs_[static_cast<std::size_t>(ordinal)]->make_ready();
  return captured;
}

// Streams may wait for the word.
mem::stream_word& accelerator::take_word() {
  mem::stream_word& word = words_.take(any_gpu());
  hold(1);
  return word;
}

void accelerator::put_word(mem::stream_word& word) noexcept {
  words_.put(word);
  hold(-1);
}

// Relaxed: a number only. A stream or kernel that will wait starts after this call has returned.
void accelerator::hold(int change) noexcept {
  held_.fetch_add(static_cast<std::size_t>(change), std::memory_order_relaxed);
}

void accelerator::enqueue(void* stream, std::span<const mem::stream_step> steps) {
  words_.enqueue(stream, steps);
}

}  // namespace lci::cuda
