// Warps of threads: each lane is a thread of the process, and what lanes do together are meetings
// of those that a mask names. Callers: the tests of what lanes do together. Threads: a lane each,
// inside of in_warp. Always true: which lanes are there at the same time is chance, as on a GPU.
#pragma once

#include <barrier>
#include <map>
#include <memory>
#include <mutex>
#include <thread>

#include "lci/gpu/lanes.hpp"

namespace lci::test {

class warp_of_threads {
 public:
  struct meeting {
    explicit meeting(unsigned mask) : barrier(gpu::detail::count_of(mask)) {}
    std::barrier<> barrier;
    std::uint64_t values[32] = {};
  };
  meeting& of(unsigned mask) {
    const std::lock_guard lock(mutex_);
    std::unique_ptr<meeting>& found = meetings_[mask];
    if (found == nullptr) found = std::make_unique<meeting>(mask);
    return *found;
  }
  // Each lane says what it has, and sees what the others have.
  template <class Look>
  auto meet(unsigned mask, unsigned lane, std::uint64_t value, Look look) {
    meeting& m = of(mask);
    m.values[lane] = value;
    m.barrier.arrive_and_wait();
    auto seen = look(m.values);
    m.barrier.arrive_and_wait();  // nobody says the next thing before all have looked
    return seen;
  }
  // Waits for a while, then goes with those that are there.
  unsigned gather(unsigned lane, const void* at) {
    const unsigned me = 1u << lane;
    {
      const std::lock_guard lock(mutex_);
      waiting_[at] |= me;
      together_[lane] = 0;
    }
    const unsigned patience = (lane * 7 + ++turn_[lane] * 13) % 20;
    for (unsigned i = 0;; ++i) {
      {
        const std::lock_guard lock(mutex_);
        if (together_[lane] != 0) return together_[lane];
        if (i >= patience) {
          const unsigned all = waiting_[at];
          waiting_[at] = 0;
          for (unsigned other = 0; other < 32; ++other)
            if ((all >> other & 1) != 0) together_[other] = all;
          return all;
        }
      }
      std::this_thread::yield();
    }
  }

 private:
  std::mutex mutex_;  // guards what follows but turn_
  std::map<unsigned, std::unique_ptr<meeting>> meetings_;
  std::map<const void*, unsigned> waiting_;
  unsigned together_[32] = {};
  unsigned turn_[32] = {};  // each its lane's own
};

struct in_warp {
  inline static thread_local warp_of_threads* warp = nullptr;
  inline static thread_local unsigned lane = 0;

  static unsigned number() noexcept { return lane; }
  static unsigned here_with(const void* at) noexcept { return warp->gather(lane, at); }
  static unsigned ballot(unsigned mask, bool says) noexcept {
    return warp->meet(mask, lane, says, [&](const std::uint64_t* values) {
      unsigned all = 0;
      for (unsigned i = 0; i < 32; ++i)
        if ((mask >> i & 1) != 0 && values[i] != 0) all |= 1u << i;
      return all;
    });
  }
  template <class T>
  static T shuffle(unsigned mask, T value, unsigned from) noexcept {
    return warp->meet(mask, lane, value,
                      [&](const std::uint64_t* values) { return static_cast<T>(values[from]); });
  }
  static void sync(unsigned mask) noexcept { ballot(mask, true); }
};

}  // namespace lci::test
