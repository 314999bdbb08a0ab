// A synchronizer: ready once `threshold` signals have come; then one tester takes them all and it
// can be used again.
//
// Threads: shared. One locked instruction per signal, one for the test that succeeds, none for a
// test that does not.
//
// Always true: a round's statuses are copied out before the first signal of the next round gets a
// place, so rounds never mix.
#pragma once

#include <atomic>
#include <cstdint>

#include "lci/comp/kind.hpp"

namespace lci::comp {

class sync final : public of_kind<attr_comp_type_t::sync>, public base::live_object<sync> {
 public:
  using tombstone = freed;
  using orphan = forked;
  static constexpr std::size_t QUARANTINE = COMP_QUARANTINE;
  static constexpr int NOBODY = -1;
  static constexpr int MAX_THRESHOLD = 1 << 24;  // that many statuses are a gigabyte

  // Throws argument_error for a threshold that is not in 1..MAX_THRESHOLD.
  explicit sync(const comp_attr_t& given);
  ~sync() override {
    if (places_ != &first_) delete[] places_;
  }
  sync(const sync&) = delete;
  sync& operator=(const sync&) = delete;

  // Throws argument_error when all signals of this round have come already; the round stays as it
  // was.
  void add(const status_t& status) {
    place& p = places_[claim()];
    p.status = status;
    // edge sync.place, writer: the status, and all that the signalling thread did before.
    p.is_filled.store(true, std::memory_order_release);
  }

  // True for one tester per round: its `threshold` statuses are copied to `out` (null: dropped).
  // False: `out` is untouched.
  bool test(status_t* out) noexcept {
    // Most tests come too early, so they look first at the place that is most likely filled last.
    // edge sync.place, reader.
    if (!places_[threshold_ - 1].is_filled.load(std::memory_order_acquire)) return false;
    return take(out);
  }

  void signal(status_t status) override { add(status); }

  // What is known of a signal that will not come in this round: the rank that failed or left, or
  // NOBODY, and the number of the operation that was to signal, counted by renew(). Aligned like
  // the atomic: clang calls libatomic for a smaller alignment.
  struct alignas(8) loss {
    std::uint32_t number = 0;
    std::int32_t rank = NOBODY;
    bool operator==(const loss&) const = default;
  };
  // The signal of operation `number` will not come, because that rank failed or left. Any thread.
  void lose(int rank, std::uint32_t number) noexcept {
    loss now = loss_.load(std::memory_order_relaxed);
    // Another operation may have taken its place. edge sync.loss, writer: a thread that sees the
    // loss knows that the operation is over.
    while (now.number == number &&
           !loss_.compare_exchange_weak(now, {number, rank}, std::memory_order_release,
                                        std::memory_order_relaxed)) {
    }
  }
  int lost() const noexcept {
    return loss_.load(std::memory_order_acquire).rank;
  }  // edge sync.loss
  // Another operation is to signal this object. With a threshold of one it replaces the previous
  // one. Returns what was known; restore() takes the change back.
  loss renew() noexcept {
    // edge sync.loss, reader and writer: the loss that is replaced, and the number.
    loss now = loss_.load(std::memory_order_relaxed);
    while (threshold_ == 1 &&
           !loss_.compare_exchange_weak(now, {now.number + 1, NOBODY}, std::memory_order_acq_rel)) {
    }
    return now;
  }
  void restore(const loss& known) noexcept {
    loss now{known.number + 1, NOBODY};
    // edge sync.loss, writer: what was known is there again.
    loss_.compare_exchange_strong(now, known, std::memory_order_release);
  }
  std::uint32_t number() const noexcept { return loss_.load(std::memory_order_relaxed).number; }

 private:
  struct place {
    status_t status;
    std::atomic<bool> is_filled{false};
  };
  // claims_ while a tester copies the statuses out.
  static constexpr std::uint32_t TAKING = ~std::uint32_t{0};

  std::uint32_t claim() {
    std::uint32_t n = claims_.load(std::memory_order_relaxed);
    for (;;) {
      if (n >= threshold_) [[unlikely]] {
        n = wait_for_room(n);
        continue;
      }
      // edge sync.round, reader: places of the round before are empty again.
      if (claims_.compare_exchange_weak(n, n + 1, std::memory_order_acquire,
                                        std::memory_order_relaxed))
        return n;
    }
  }
  bool take(status_t* out) noexcept;
  LCI_COLD std::uint32_t wait_for_room(std::uint32_t claims) const;

  const std::uint32_t threshold_;
  std::atomic<std::uint32_t> claims_{0};  // places given out in this round, or TAKING
  std::atomic<loss> loss_{};
  static_assert(std::atomic<loss>::is_always_lock_free);
  place first_;          // the only one when the threshold is 1, which then needs no other memory
  place* const places_;  // threshold_ of them
};

}  // namespace lci::comp
