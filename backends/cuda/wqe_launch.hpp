// Starts the kernels of lci/wqe/kernels.cuh, each of one thread, and waits for what they answer.
// Callers: lci_launch_send_wqe() and the others. Threads: shared, each call has all of its own.
// Always true: code, stream and memory are of one call, so nothing stays and nothing must be
// opened.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "backends/cuda/gpu.hpp"

namespace lci::cuda {

// Empty in a library without device code.
std::span<const unsigned char> wqe_image() noexcept;

class wqe_launch {
 public:
  // Throws backend_error.
  wqe_launch(gpu& g, std::span<const unsigned char> image, const char* kernel);
  ~wqe_launch();
  wqe_launch(const wqe_launch&) = delete;
  wqe_launch& operator=(const wqe_launch&) = delete;

  // Throws backend_error. `parameters` is the kernel's one structure; its answer is set here.
  template <class Parameters>
  std::int64_t operator()(Parameters parameters) {
    parameters.answer = answer_at_gpu_;
    return run(&parameters);
  }

 private:
  void open(std::span<const unsigned char> image, const char* kernel);
  void close() noexcept;
  std::int64_t run(void* parameters);

  gpu& gpu_;
  context_scope scope_;
  abi::code_module module_ = nullptr;
  abi::function kernel_ = nullptr;
  abi::stream stream_ = nullptr;
  std::int64_t* answer_ = nullptr;  // pinned
  std::int64_t* answer_at_gpu_ = nullptr;
};

}  // namespace lci::cuda
