#include "lci/proxy/raised_words.hpp"

#include <chrono>

#include "lci/base/spin.hpp"
#include "lci/wqe/processor.hpp"

namespace lci::proxy {
namespace {

constexpr std::uint32_t ONE = 1;

}  // namespace

raised_words::raised_words(proto::gpu::protocols& gpus, int gpu, std::size_t count)
    : gpus_(gpus), gpu_(gpu) {
  if (gpu == gpu::NO_GPU) return;
  jobs_ = std::make_unique<job[]>(count);
}

// edge gpu.ended, other side in kernels that wait.
void raised_words::raise(std::size_t which, std::uint32_t* at) noexcept {
  if (gpu_ == gpu::NO_GPU)
    return wqe::word_at<std::uint32_t>(at).store(1, std::memory_order_release);
  job& one = jobs_[which];
  // First: a thread that finds it begun must find it under way.
  out_.fetch_add(1, std::memory_order_relaxed);
  // Relaxed: the first thread makes it, and nothing else comes with it.
  if (one.is_begun.exchange(true, std::memory_order_relaxed)) {
    out_.fetch_sub(1, std::memory_order_relaxed);
    return;
  }
  one.home = this;
  one.to = reinterpret_cast<std::byte*>(at);
  one.from = reinterpret_cast<const std::byte*>(&ONE);
  one.size = sizeof(ONE);
  one.device = gpu_;
  gpus_.copy(one);
}

void raised_words::raise_now(std::size_t which, std::uint32_t* at) noexcept {
  constexpr auto PATIENCE = std::chrono::seconds(5);
  raise(which, at);
  if (gpu_ == gpu::NO_GPU) return;
  // Its own copy only: others may wait for this thread, in a handler that a copy's end runs.
  // edge proxy.raised: partner is job::ended().
  const auto is_over = [&] { return jobs_[which].is_ended.load(std::memory_order_acquire); };
  const auto start = std::chrono::steady_clock::now();
  for (base::spin_wait wait; !is_over() && std::chrono::steady_clock::now() - start < PATIENCE;
       wait())
    gpus_.gpus().poll();
}

}  // namespace lci::proxy
