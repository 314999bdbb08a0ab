// News that a GPU brings by itself: behind its copy it stores into a word of host memory that the
// target polls, which spares the way through the sender's processor. Here is what the target looks
// for; the words are in flag_words.hpp. One per device. Threads: shared. Always true: what waits
// for a word acts once, and is seen here until it has.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include "lci/base/spinlock.hpp"
#include "lci/net/backend.hpp"
#include "lci/proto/engine/wire.hpp"
#include "lci/proto/gpu/flag_words.hpp"

namespace lci::proto::gpu {

struct context;
class preposted_receives;

class awaited_flags {
 public:
  awaited_flags(context& ctx, preposted_receives& preposted) noexcept
      : ctx_(ctx), preposted_(preposted) {}
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
  // A claim on one of our pre-posted receives that is still valid; the caller holds a `place`.
  void on_claim(int rank, const wire::claim& body) noexcept;
  std::size_t poll() noexcept;
  // That rank has ended. Words that it has set are acted on by the next poll().
  void forget(int rank) noexcept;
  // A word is waited for, or set and not yet acted on, that ends the message for this receive.
  bool has(wire::name preposted) noexcept;
  // A word is set, and not yet acted on, that says this.
  bool is_set(int rank, std::uint32_t imm) noexcept;

 private:
  struct waiting {
    int rank = -1;
    flag_word* word = nullptr;  // in the peer's arena; null: there is nothing to wait for
    std::uint32_t imm = 0;
    // A landing: where the bytes are and go.
    bool is_landing = false;
    wire::landing what;
    const std::byte* from = nullptr;
    wire::name preposted;      // our pre-posted receive that was claimed; none: {}
    bool is_acted_on = false;  // by a thread that erases it afterwards
  };
  void act(const waiting& on) noexcept;
  // The caller has a place.
  void wait_for(const waiting& one) noexcept;
  void wait_for(waiting one, std::uint64_t where) noexcept;
  template <class Those>
  void erase(Those those) noexcept;

  context& ctx_;
  preposted_receives& preposted_;
  base::spinlock lock_;  // guards the next two
  std::vector<waiting> list_;
  std::size_t places_ = 0;             // that are held, each with room in the list
  std::atomic<std::size_t> count_{0};  // of list_
};

}  // namespace lci::proto::gpu
