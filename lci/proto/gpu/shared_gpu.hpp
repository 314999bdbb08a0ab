// Which way memory goes between two processes that use one GPU: by that GPU, where each copy may
// wait for the GPU to switch from the other process (some 150 us, whatever the size), or through
// host memory. Learned from how long they take, per peer, direction and class of sizes: by the GPU
// until that is slow, then the faster of both, with the other tried now and then.
// Owned by gpu::common. Threads: shared; a short lock.
// Always true: the same times give the same choices; what is never slow goes by the GPU always; a
// way that was given up is tried again, less and less often.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <map>

#include "lci/base/spinlock.hpp"

namespace lci::proto::gpu {

class shared_gpu_ways {
 public:
  enum way : std::uint8_t { BY_GPU, BY_HOST };

  // Of a copy by the GPU that waited for its turn: SLOW_US and a microsecond for so many bytes.
  // Copies that wait for none take 10 to 20 us, and 2 TB/s (H200).
  static constexpr std::uint64_t SLOW_US = 60, BYTES_PER_US = 100'000;
  // Messages of a stretch that measures a way; the first one is not counted: memory is mapped.
  static constexpr std::uint32_t STRETCH = 4;
  // Messages by the better way until the other is tried again: twice as many each time that it was
  // no better.
  static constexpr std::uint32_t SHORTEST = 128, LONGEST = 8192;

  // How the next message of at least a byte for `rank` goes. To learn, call enter() first.
  way pick(int rank, std::size_t size, bool is_get) const noexcept;
  // The rank's memory is on this GPU too.
  void enter(int rank) noexcept;
  // A message that went this way ends now; it began at `began`, in base::cpu_ticks(). In streams
  // several are under way: what counts is the time since the one before it. Messages that fail, or
  // are refused when they are posted, are not noted and change nothing.
  void note(int rank, std::size_t size, bool is_get, way went, std::uint64_t began) noexcept;
  static constexpr std::uint64_t ns_of(std::uint64_t ticks, std::uint64_t ticks_per_ms) noexcept {
    return ticks / ticks_per_ms * 1'000'000 + ticks % ticks_per_ms * 1'000'000 / ticks_per_ms;
  }
  // In nanoseconds, for tests.
  void note(int rank, std::size_t size, bool is_get, way went, std::uint64_t began,
            std::uint64_t ended) noexcept;

 private:
  struct tally {
    std::uint32_t seen = 0;  // since its stretch began
    std::uint64_t sum = 0;   // of those that count, like all that follows in nanoseconds
    std::uint64_t cost = 0;  // of one, when last measured; 0: never
    std::uint64_t last_ended = 0;
  };
  struct size_class {
    way best = BY_GPU, now = BY_GPU;
    std::uint32_t left = 0;  // messages of this stretch that have not ended; 0: the first, no end
    std::uint32_t distance = SHORTEST;
    std::array<tally, 2> of{};
  };
  static constexpr std::size_t CLASSES = 40;
  using classes = std::array<std::array<size_class, CLASSES>, 2>;  // gets apart
  static std::size_t class_of(std::size_t size) noexcept {
    const auto width = static_cast<std::size_t>(std::bit_width(size));
    return width < CLASSES ? width : CLASSES - 1;
  }
  static void begin(size_class& c, way next, std::uint32_t messages) noexcept {
    c.now = next;
    c.left = messages;
    c.of[next].seen = 0;
    c.of[next].sum = 0;
  }

  static bool compare(size_class& c, way measured) noexcept;
  static void go_on(size_class& c) noexcept;

  mutable base::spinlock lock_;
  std::map<int, classes> peers_;  // those on the same GPU
};

}  // namespace lci::proto::gpu
