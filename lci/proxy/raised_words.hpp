// Words by which the host tells kernels that something has ended: in plain memory a store, in
// memory of a GPU, where kernels read them soonest, a copy of the accelerator, which kernels that
// run do not hold up. Callers: endpoint. Threads: raise() any. Always true: a word changes once; a
// copy that is under way belongs to this object, which outlives it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "lci/proto/gpu/protocols.hpp"
#include "lci/proxy/block.hpp"

namespace lci::proxy {

class raised_words {
 public:
  // `count` words; gpu: whose memory they are in, or NO_GPU.
  raised_words(proto::gpu::protocols& gpus, int gpu, std::size_t count);

  // Makes word number `which`, at `at`, 1. Of a GPU it is so once is_out() says no.
  void raise(std::size_t which, std::uint32_t* at) noexcept;
  // The same, and waits for it, for calls of the program.
  void raise_now(std::size_t which, std::uint32_t* at) noexcept;
  // A copy is under way. edge proxy.raised: partner is job::ended().
  bool is_out() const noexcept { return out_.load(std::memory_order_acquire) != 0; }

 private:
  class job final : public proto::gpu::device_job {
   public:
    // edge proxy.raised: partner is is_out(). Without the copy the GPU has failed, and its kernels.
    void ended(std::string_view) noexcept override {
      // edge proxy.raised: partner is raise_now().
      is_ended.store(true, std::memory_order_release);
      home->out_.fetch_sub(1, std::memory_order_release);
    }
    raised_words* home = nullptr;
    std::atomic<bool> is_begun{false}, is_ended{false};
  };

  proto::gpu::protocols& gpus_;  // of the device, which waits for copies
  const int gpu_;
  std::unique_ptr<job[]> jobs_;  // of a GPU, by word
  // edge proxy.raised, from the end of a copy to a thread that waits for it.
  std::atomic<std::size_t> out_{0};
};

}  // namespace lci::proxy
