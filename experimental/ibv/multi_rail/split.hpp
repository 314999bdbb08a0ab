// A large write or read that goes in pieces over several cards, or whole over one that is not the
// first. Its parts are posted by the thread that posts the operation, until a card has no room; the
// rest by polls. Owned by side_queues. Threads: the poster, until it has posted the last part or
// handed the rest over; then the polling thread, which alone counts what is done. Always true: the
// notification of a write with immediate data is posted once all parts on all cards are
// acknowledged; the operation ends once, with the first error if there was one, and not before the
// card is done with every part that it got.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "experimental/ibv/multi_rail/pieces.hpp"
#include "lci/base/spinlock.hpp"

namespace lci::ibv {

class connection;

struct split {
  struct part {
    connection* on = nullptr;
    const void* local = nullptr;
    std::size_t size = 0;
    std::uint64_t remote = 0;
    std::uint32_t lkey = 0, rkey = 0;
  };
  connection* main = nullptr;  // to that rank, where it is notified and ended; null: not in use
  void* context = nullptr;
  std::uint64_t key = 0;  // registration that was made for it
  bool is_read = false;
  bool has_imm = false;
  std::uint32_t imm = 0;
  std::uint64_t remote = 0;  // where it begins, and the key of the target's first card
  std::uint32_t rkey = 0;
  std::array<part, MAX_RAILS> parts{};
  std::size_t count = 0;
  std::size_t posted = 0;  // parts
  split* next = nullptr;   // of those that wait for room
  // ---- the polling thread's ----
  std::size_t done = 0;  // parts that have ended
  const char* error = nullptr;
};

// Those that exist, used again and again. Threads: shared.
class splits {
 public:
  // Null: no memory.
  split* take() noexcept;
  void put(split& used) noexcept;
  // Those in use, at the end.
  template <class Use>
  void for_each_left(Use&& use) {
    for (split& one : all_)
      if (one.main != nullptr) use(one);
  }

 private:
  base::spinlock lock_;  // guards both
  std::deque<split> all_;
  std::vector<split*> free_;
};

}  // namespace lci::ibv
