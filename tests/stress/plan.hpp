// What every thread of every rank will do, computed from the seed alone: any rank can ask what
// another one has planned, so each message and each byte of it can be verified without talking
// about it. Immutable after construction; shared by all threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

namespace stress {

enum class kind : std::uint8_t { am, send, put_get, get };

struct action {
  kind what;
  std::uint8_t
      variant;  // random bits: registered buffer, user packet, wide tag, allow_done, allow_retry
  int peer;
  std::uint32_t size;  // at least HEAD for an active message
  std::uint64_t seed;  // of the bytes
};

// First bytes of an active message: who sends it, and which action it is.
struct am_head {
  std::uint32_t rank, thread, index;
};
constexpr std::uint32_t HEAD = sizeof(am_head);

struct shape {
  int ranks;
  int threads;
  int actions;             // per thread
  std::uint32_t max_size;  // bytes of the largest message
  std::uint32_t bcopy;     // sizes crowd around this limit
};

class plan {
 public:
  plan(const shape& s, std::uint64_t seed) : shape_(s) {
    for (int rank = 0; rank < s.ranks; ++rank)
      for (int thread = 0; thread < s.threads; ++thread)
        threads_.push_back(draw(seed, rank, thread));
  }

  const std::vector<action>& of(int rank, int thread) const {
    return threads_[static_cast<std::size_t>(rank * shape_.threads + thread)];
  }
  const shape& dimensions() const { return shape_; }

  // How many active messages all threads of all ranks send to this rank.
  std::size_t messages_to(int rank) const {
    std::size_t count = 0;
    for (const auto& actions : threads_)
      for (const action& a : actions) count += a.what == kind::am && a.peer == rank ? 1 : 0;
    return count;
  }

 private:
  std::vector<action> draw(std::uint64_t seed, int rank, int thread) const {
    std::seed_seq mix{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32),
                      static_cast<std::uint32_t>(rank), static_cast<std::uint32_t>(thread)};
    std::mt19937_64 random(mix);
    std::vector<action> actions;
    for (int i = 0; i < shape_.actions; ++i) {
      const std::uint64_t dice = random();
      action a{};
      a.what = dice % 100 < 60   ? kind::am
               : dice % 100 < 85 ? kind::send
               : dice % 100 < 95 ? kind::put_get
                                 : kind::get;
      a.variant = static_cast<std::uint8_t>(dice >> 32);
      a.peer = static_cast<int>(random() % static_cast<std::uint64_t>(shape_.ranks));
      a.size = draw_size(random);
      if (a.what == kind::am && a.size < HEAD) a.size = HEAD;
      a.seed = random();
      actions.push_back(a);
    }
    return actions;
  }

  // Mostly small, some around the packet limit, a few large.
  std::uint32_t draw_size(std::mt19937_64& random) const {
    const std::uint64_t dice = random() % 100;
    if (dice < 70) return static_cast<std::uint32_t>(random() % 130);
    if (dice < 85) return static_cast<std::uint32_t>(random() % shape_.bcopy);
    if (dice < 93) return shape_.bcopy - 16 + static_cast<std::uint32_t>(random() % 32);
    return static_cast<std::uint32_t>(random() % shape_.max_size);
  }

  shape shape_;
  std::vector<std::vector<action>> threads_;
};

}  // namespace stress
