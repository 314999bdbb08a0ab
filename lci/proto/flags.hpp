// News that a GPU brings by itself: behind its copy it stores into a word of host memory that the
// target polls, which spares the way through the sender's processor. The words lie in the sender's
// arena, pinned; the target hears beforehand which one to look at.
//
//   flag_words     the sender's words; owned by core
//   awaited_flags  what a channel looks for; one per channel
//
// Threads: shared. Always true: a word is free (0), taken by an operation of ours, or owned by the
// target until that makes it 0; what waits for a word acts once.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include "lci/base/spinlock.hpp"
#include "lci/net/backend.hpp"
#include "lci/proto/staging_store.hpp"
#include "lci/proto/wire.hpp"

namespace lci::proto {

class channel;

using flag_word = std::atomic<std::uint64_t>;

class flag_words {
 public:
  static constexpr std::size_t WORDS = staging_store::SMALL / sizeof(flag_word);

  explicit flag_words(staging_store& store) noexcept : store_(store) {}
  // A word for one news, FLAG_TAKEN. Null: all are taken, or there is no pinned memory.
  flag_word* take() noexcept;
  // It was told nobody.
  static void give(flag_word* word) noexcept { word->store(0, std::memory_order_relaxed); }
  std::uint64_t place_of(const flag_word* word) const noexcept;

 private:
  staging_store& store_;
  base::spinlock lock_;  // guards the rest
  slot_set* set_ = nullptr;
  bool is_useless_ = false;
  std::size_t next_ = 0;
};

// A word at that place of a peer's arena; null: there is none, or we do not map it.
flag_word* find_word(net::fabric& fabric, int rank, std::uint64_t place) noexcept;

class awaited_flags {
 public:
  explicit awaited_flags(channel& via) noexcept : via_(via) {}
  ~awaited_flags();
  awaited_flags(const awaited_flags&) = delete;
  awaited_flags& operator=(const awaited_flags&) = delete;
  // Room for one more, while it lives. Throws std::bad_alloc.
  class place {
   public:
    explicit place(awaited_flags& in);
    ~place();
    place(const place&) = delete;
    place& operator=(const place&) = delete;

   private:
    awaited_flags& in_;
  };
  // Both throw std::bad_alloc: nothing has changed.
  void on_await(int rank, const wire::await_flag& body);
  void on_landing(int rank, const wire::landing& body);
  // Of an offer of ours that holds; the caller has a place.
  void on_claim(int rank, const wire::claim& body) noexcept;
  std::size_t poll() noexcept;
  void forget(int rank) noexcept;

 private:
  struct waiting {
    int rank = -1;
    flag_word* word = nullptr;  // in the peer's arena; null: there is nothing to wait for
    std::uint32_t imm = 0;
    // A landing: where the bytes are and go.
    bool is_landing = false;
    wire::landing what;
    const std::byte* from = nullptr;
    wire::name offer;  // of ours that was claimed; none: {}
  };
  void act(const waiting& on) noexcept;
  // The caller has a place.
  void wait_for(const waiting& one) noexcept;
  void wait_for(waiting one, std::uint64_t where) noexcept;

  channel& via_;
  base::spinlock lock_;  // guards the next two
  std::vector<waiting> list_;
  std::size_t places_ = 0;             // that are held, each with room in the list
  std::atomic<std::size_t> count_{0};  // of list_
};

}  // namespace lci::proto
