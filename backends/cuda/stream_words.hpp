// Streams of the program: words in pinned memory that they write and wait for. Callers:
// accelerator. Threads: shared. Always true: each call is made in the stream's own context, and a
// stream gets what it is asked for and nothing else: no event, no wait for the GPU. A word is in
// exactly one of {free, taken}; memory with a taken word is not given back, because a stream may
// still write there.
#pragma once

#include <atomic>
#include <cstddef>
#include <mutex>
#include <span>
#include <vector>

#include "backends/cuda/gpu.hpp"
#include "lci/mem/accelerator.hpp"

namespace lci::cuda {

class stream_words {
 public:
  static constexpr std::size_t PAGE =
      64;  // words allocated at once, each in a cache line of its own

  explicit stream_words(gpu_list& gpus) : gpus_(gpus) {}
  ~stream_words();
  stream_words(const stream_words&) = delete;
  stream_words& operator=(const stream_words&) = delete;

  // All throw backend_error. The stream's GPU is answered as `ordinal`.
  bool is_captured(void* stream, int& ordinal);
  // New memory is of that GPU's context.
  mem::stream_word& take(gpu& g);
  void put(mem::stream_word& word) noexcept;
  void enqueue(void* stream, std::span<const mem::stream_step> steps);

 private:
  struct place {
    alignas(64) mem::stream_word word;
  };
  struct page {
    gpu* owner;
    place* first;
    std::size_t taken;
  };
  const abi::functions& call() { return gpus_.get_driver().call(); }
  abi::context context_of(abi::stream stream);
  void grow(gpu& g);
  page& page_of_locked(const mem::stream_word& word) noexcept;

  gpu_list& gpus_;
  std::mutex mutex_;  // guards all below
  std::vector<page> pages_;
  std::vector<mem::stream_word*> free_;
};

}  // namespace lci::cuda
