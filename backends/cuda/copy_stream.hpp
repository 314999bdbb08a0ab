// Copies that end in their order: one stream, and an event behind each copy. Callers:
// memory_sharing. Threads: single. Always true: the events that are not in use wait for the next
// copy; the destructor waits for what was started.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "backends/cuda/gpu.hpp"
#include "lci/mem/memory_sharing.hpp"

namespace lci::cuda {

class copy_stream final : public mem::copy_queue {
 public:
  explicit copy_stream(gpu& on);  // throws backend_error
  ~copy_stream() override;
  copy_stream(const copy_stream&) = delete;
  copy_stream& operator=(const copy_stream&) = delete;

  void start(std::byte* to, const std::byte* from, std::size_t size) override;
  std::uint64_t ended(std::uint64_t number) override;

 private:
  abi::event take_event();
  bool is_reached(abi::event behind);

  gpu& gpu_;
  abi::stream stream_ = nullptr;
  std::deque<abi::event> under_way_;  // oldest first
  std::vector<abi::event> spare_;
  std::uint64_t ended_ = 0;
};

}  // namespace lci::cuda
