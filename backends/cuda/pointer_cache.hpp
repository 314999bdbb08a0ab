// Remembers what classify() found, so that a pointer seen before costs one short driver call. The
// call asks for the buffer id each time, so an address that was freed and allocated again is never
// taken for what it was. Callers: posts whose buffer is of unknown kind, registration. Threads:
// shared, no lock.
// Always true: an answer describes the allocation as it is now. VMM mappings are never remembered:
// nothing promises another buffer id when other memory is mapped at the same address.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "backends/cuda/driver.hpp"
#include "backends/cuda/pointer.hpp"

namespace lci::cuda {

class pointer_cache {
 public:
  explicit pointer_cache(driver& d) noexcept : driver_(d) {}

  classified find(const void* pointer) noexcept;
  // Statistics for tests and lci_info.
  std::uint64_t hits() const noexcept { return hits_.load(std::memory_order_relaxed); }

 private:
  static constexpr std::size_t SLOTS = 256;  // allocations remembered; a collision forgets one
  static constexpr std::size_t WORDS = (sizeof(allocation) + 7) / 8;

  // A record that readers copy while a writer may be at it: odd = being written.
  struct slot {
    std::atomic<std::uint32_t> sequence{0};
    std::array<std::atomic<std::uint64_t>, WORDS> words{};
  };
  bool read(const slot& from, allocation& out) const noexcept;
  void write(slot& to, const allocation& what) noexcept;

  driver& driver_;
  std::array<slot, SLOTS> slots_{};
  std::atomic<std::uint64_t> hits_{0};
};

}  // namespace lci::cuda
