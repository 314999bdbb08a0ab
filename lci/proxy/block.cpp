#include "lci/proxy/block.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <new>
#include <string>
#include <utility>

#include "lci/base/spin.hpp"
#include "lci/errors.hpp"
#include "lci/proto/gpu/devices.hpp"

namespace lci::proxy {
namespace {

constexpr std::align_val_t ALIGNMENT{4096};

// A copy that the maker of a block waits for.
class fill_job final : public proto::gpu::device_job {
 public:
  void ended(std::string_view why) noexcept override {
    has_failed = !why.empty();
    std::memcpy(error, why.data(), std::min(why.size(), sizeof(error) - 1));
    has_ended.store(true, std::memory_order_release);  // edge proxy.fill: partner is fill()
  }
  char error[256] = {};
  bool has_failed = false;
  std::atomic<bool> has_ended{false};
};

}  // namespace

const mem::memory_domain& gpu_domain() {
  std::string reasons;
  for (const mem::memory_domain& domain : mem::memory_domains()) {
    const std::string why = domain.probe();
    if (why.empty()) return domain;
    reasons += (reasons.empty() ? "" : "; ") + std::string(domain.name) + ": " + why;
  }
  throw backend_error("no GPU can be used: " + reasons);
}

block block::shared(std::size_t size, int gpu) {
  block made;
  if (gpu == gpu::NO_GPU) {
    made.at_ = static_cast<std::byte*>(::operator new(size, ALIGNMENT));
  } else {
    const mem::memory_domain& domain = gpu_domain();
    made.at_ = static_cast<std::byte*>(domain.allocate(size, gpu, true));
    made.domain_ = &domain;
  }
  std::memset(made.at_, 0, size);
  return made;
}

block block::of_gpu(std::size_t size, int gpu) {
  if (gpu == gpu::NO_GPU) return shared(size, gpu);
  block made;
  const mem::memory_domain& domain = gpu_domain();
  made.at_ = static_cast<std::byte*>(domain.allocate(size, gpu, false));
  made.domain_ = &domain;
  made.gpu_ = gpu;
  return made;
}

block::block(block&& other) noexcept
    : at_(std::exchange(other.at_, nullptr)),
      domain_(std::exchange(other.domain_, nullptr)),
      gpu_(other.gpu_) {}

block& block::operator=(block&& other) noexcept {
  std::swap(at_, other.at_);
  std::swap(domain_, other.domain_);
  std::swap(gpu_, other.gpu_);
  return *this;
}

block::~block() {
  if (at_ == nullptr) return;
  if (domain_ == nullptr) {
    ::operator delete(at_, ALIGNMENT);
    return;
  }
  try {
    domain_->release(at_);
  } catch (...) {  // the GPU has failed; its memory is lost with it
  }
}

void block::fill(proto::gpu::devices& gpus, const std::vector<std::byte>& image, std::size_t at) {
  if (gpu_ == gpu::NO_GPU) {
    std::memcpy(at_ + at, image.data(), image.size());
    return;
  }
  gpus.use(*domain_);
  fill_job job;
  job.to = at_ + at;
  job.from = image.data();
  job.size = image.size();
  job.device = gpu_;
  gpus.copy(job, nullptr);
  // edge proxy.fill: the words of an error come with it. Partner is ended().
  for (base::spin_wait wait; !job.has_ended.load(std::memory_order_acquire); wait()) gpus.poll();
  if (job.has_failed) throw backend_error(std::string("memory of a GPU endpoint: ") + job.error);
}

}  // namespace lci::proxy
