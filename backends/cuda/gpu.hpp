// A GPU as lci uses it: what it can do, and its primary context, which the CUDA runtime and most
// programs use too. Callers: backends/cuda. Threads: shared.
// Always true: the primary context is retained at first need, because making one costs hundreds of
// megabytes and milliseconds, and released once. Around each group of driver calls stands a
// `context_scope`: afterwards the thread's stack of contexts and its capture mode are as before, so
// the user's current context, streams and captures never notice us.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "backends/cuda/driver.hpp"

namespace lci::cuda {

struct gpu_facts {
  int ordinal = -1;  // as this process counts; others may count otherwise (CUDA_VISIBLE_DEVICES)
  std::string name;
  std::string pci;               // bus id: names the same GPU in every process
  bool stream_writes = false;    // cuStreamWriteValue32 and 64
  bool stream_stores = false;    // cuStreamBatchMemOp: several of them in one call
  bool vmm_descriptors = false;  // VMM allocations can be passed on as file descriptors
  bool fabric_handles = false;   // or as bytes; whether this process may is known when it tries
  bool dma_buf = false;
  bool direct_rdma = false;  // cards may read and write its memory at all
};

class gpu {
 public:
  // Throws backend_error; retains nothing yet.
  gpu(driver& d, int ordinal);
  ~gpu();
  gpu(const gpu&) = delete;
  gpu& operator=(const gpu&) = delete;

  const gpu_facts& facts() const noexcept { return facts_; }
  const abi::functions& call() const noexcept { return driver_.call(); }
  // The primary context. Throws backend_error when it cannot be made.
  abi::context context();
  // Another process was seen to use it.
  void note_shared() noexcept { is_shared_.store(true, std::memory_order_relaxed); }  // a fact only
  bool is_shared() const noexcept { return is_shared_.load(std::memory_order_relaxed); }
  // Empty when this GPU can reach memory of that one directly, else why not. Makes no context.
  std::string why_out_of_reach(gpu& other);
  // Empty when this GPU can copy to and from memory of that one directly, else why not. Enables it.
  std::string why_no_peer_access(gpu& other);
  // Whether atomic instructions of this GPU on memory of the other are such for both.
  bool has_atomics_on(gpu& other) noexcept;

 private:
  driver& driver_;
  abi::device device_ = -1;
  gpu_facts facts_;
  std::atomic<bool> is_shared_{false};
  std::mutex mutex_;  // guards context_
  abi::context context_ = nullptr;
};

// The GPUs of this process, made when first asked for.
class gpu_list {
 public:
  explicit gpu_list(driver& d) : driver_(d) {}
  // Throws backend_error: no such GPU, or CUDA cannot be used.
  gpu& at(int ordinal);
  driver& get_driver() noexcept { return driver_; }

 private:
  driver& driver_;
  std::mutex mutex_;  // guards gpus_
  std::vector<std::unique_ptr<gpu>> gpus_;
};

// Makes a context current and lets calls through that an ongoing graph capture in another stream
// of the user would forbid; undoes both. Threads: each its own.
class context_scope {
 public:
  context_scope(const abi::functions& call, abi::context context) noexcept;
  ~context_scope();
  context_scope(const context_scope&) = delete;
  context_scope& operator=(const context_scope&) = delete;
  // success, or why the context could not be entered; then nothing may be called inside.
  abi::result entered() const noexcept { return entered_; }

 private:
  const abi::functions& call_;
  abi::capture_mode mode_ = abi::capture_mode::relaxed;  // after the exchange: the user's
  abi::result entered_;
};

}  // namespace lci::cuda
