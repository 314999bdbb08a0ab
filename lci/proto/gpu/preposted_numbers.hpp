// What names pre-posted receives, and the numbers under which peers are told of them, for all
// devices of a runtime: a device that is made with the number of one that has ended continues
// neither. So what peers remember of that one names nothing, and what they are told of the next one
// is newer. Threads: any.
#pragma once

#include <atomic>
#include <cstdint>

namespace lci::proto::gpu {

class preposted_numbers {
 public:
  // 0 names nothing.
  std::uint32_t next_generation() noexcept {
    std::uint32_t made = 0;
    while (made == 0) made = generation_.fetch_add(1, std::memory_order_relaxed) + 1;
    return made;
  }
  // A device counts from there.
  std::uint64_t next_base() noexcept {
    return bases_.fetch_add(1, std::memory_order_relaxed) << BASE_BITS;
  }

 private:
  static constexpr int BASE_BITS = 40;
  std::atomic<std::uint32_t> generation_{0};
  std::atomic<std::uint64_t> bases_{0};
};

}  // namespace lci::proto::gpu
