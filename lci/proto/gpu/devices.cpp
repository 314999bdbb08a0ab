#include "lci/proto/gpu/devices.hpp"

#include <string>
#include <utility>

#include "lci/errors.hpp"

namespace lci::proto::gpu {

// Here and below the job is gone, or used anew, when the call returns.
void device_job::on_copied(std::string_view error) noexcept {
  const counting mine = counted_;
  ended(error);
  devices::uncount(mine);
}

void device_delivery::on_delivered(std::string_view error) noexcept {
  const counting mine = counted_;
  delivered(error);
  devices::uncount(mine);
}

void devices::count(counting& job, std::atomic<std::size_t>* in) noexcept {
  job = {this, in};
  core_.expect(1);
  // Relaxed: the thread that frees a device has made its last post.
  if (in != nullptr) in->fetch_add(1, std::memory_order_relaxed);
}

void devices::uncount(const counting& job) noexcept {
  job.home->core_.expect(-1);
  // edge gpu.copies: what the end of the job did is over; partner is context::has_copies(). Last:
  // the device may go then.
  if (job.in != nullptr) job.in->fetch_sub(1, std::memory_order_release);
}

mem::accelerator& devices::use(const mem::memory_domain& domain) {
  if (mem::accelerator* const one = running(); one != nullptr) return *one;
  const std::lock_guard lock(mutex_);
  if (owned_ == nullptr) {
    std::unique_ptr<mem::accelerator> made = domain.start(core_.arena);
    if (resident_blocks_ != 0) made->keep_resident(resident_blocks_);
    const mem::cpu_copy_limits limits = made->allow_cpu_copies(gdrcopy_);
    owned_ = std::move(made);
    running_.store(owned_.get(), std::memory_order_release);  // edge devices.running
    read_limit_.store(limits.read, std::memory_order_relaxed);
    write_limit_.store(limits.write, std::memory_order_relaxed);
  }
  return *owned_;
}

mem::accelerator& devices::use_any() {
  if (mem::accelerator* const one = running(); one != nullptr) return *one;
  std::string reasons;
  for (const mem::memory_domain& domain : mem::memory_domains()) {
    const std::string why_not = domain.probe();
    if (why_not.empty()) return use(domain);
    reasons += (reasons.empty() ? "" : "; ") + std::string(domain.name) + ": " + why_not;
  }
  throw backend_error(reasons.empty() ? "this build supports no accelerator" : reasons);
}

void devices::copy(device_job& job, std::atomic<std::size_t>* in) noexcept {
  count(job.counted_, in);
  running()->copy(job);
}

bool devices::copy_and_flag(device_job& job, std::uint64_t* flag, std::uint64_t value,
                            std::atomic<std::size_t>* in) noexcept {
  count(job.counted_, in);
  if (running()->copy_and_flag(job, flag, value)) return true;
  uncount(job.counted_);
  return false;
}

bool devices::deliver(device_delivery& job, std::atomic<std::size_t>* in) noexcept {
  mem::accelerator* const one = running();
  if (one == nullptr) return false;
  count(job.counted_, in);
  if (one->deliver(job)) return true;
  uncount(job.counted_);
  return false;
}

std::string_view devices::change_word(mem::atomic_job& job) noexcept {
  mem::accelerator* const one = running();
  return one == nullptr ? "no accelerator was started" : one->atomic(job);
}

bool devices::read_by_cpu(void* to, const void* from, std::size_t size) noexcept {
  mem::accelerator* const one = running();
  return one != nullptr && may_read_by_cpu(size) &&
         one->read_by_cpu(static_cast<std::byte*>(to), static_cast<const std::byte*>(from), size);
}

bool devices::write_small(void* to, const void* from, std::size_t size) noexcept {
  mem::accelerator* const one = running();
  return one != nullptr &&
         one->write_by_cpu(static_cast<std::byte*>(to), static_cast<const std::byte*>(from), size);
}

std::size_t devices::poll() noexcept {
  mem::accelerator* const one = running();
  return one == nullptr ? 0 : one->poll();
}

void devices::close() noexcept {
  read_limit_.store(0, std::memory_order_relaxed);
  write_limit_.store(0, std::memory_order_relaxed);
  running_.store(nullptr, std::memory_order_relaxed);
  owned_.reset();
}

}  // namespace lci::proto::gpu
