// Puts and signals between places that the caller reaches itself: what most calls of a kernel to
// another GPU are. Callers: remote.hpp, which goes the general way if this one says no. Threads:
// any; of a scope the leader.
// Always true: no is said before anything is written; yes is said of all that can be stored
// directly. A GPU waits once for all that it reads, and what the handles say by themselves is
// computed meanwhile: behind the words of the record these checks took half as long as the way to
// another GPU (decision 0052).
#pragma once

#include <cstdint>

#include "lci/gpu/access.hpp"
#include "lci/gpu/signals.hpp"

namespace lci::gpu::detail {

// What goes to the other place: bytes of the caller's memory, or a word of the caller itself.
struct put_source {
  const place_t* from = nullptr;
  std::uint64_t bits = 0;  // without `from`
};

struct mapped_put {
  std::uint64_t to = 0, from = 0, word = 0;  // `word`: of the signal
  std::uint64_t bits = 0;                    // if `is_word`
  bool is_word = false;                      // 4 or 8 bytes at aligned places: one store
  bool is_near = false;                      // all of it is in the memory of this GPU
};

// Without jumps, like `&` and `|` below: each condition costs less than one.
template <class... Each>
LCI_ANYWHERE constexpr bool all(Each... each) noexcept {
  return (static_cast<unsigned>(each) & ...) != 0;
}

LCI_ANYWHERE inline bool is_mapped(const place_t& at, std::uint64_t size) noexcept {
  const key_t& k = at.key;
  return (k.mapped != 0) & ((k.length == UNKNOWN_LENGTH) |
                            ((at.offset <= k.length) & (size <= k.length - at.offset)));
}
LCI_ANYWHERE inline bool may_be_of(const key_t& k, std::uint32_t owner) noexcept {
  return (k.rank == ANY_RANK) | (static_cast<std::uint32_t>(k.rank) == owner);
}
LCI_ANYWHERE inline std::uint64_t mapped_address(const place_t& at) noexcept {
  return at.key.mapped + at.offset;
}

// Not plain loads and stores: the compiler would move the load behind the checks. Relaxed: what
// orders them is the fence or the signal behind them.
LCI_ANYWHERE inline std::uint64_t read_word(std::uint64_t at, std::uint64_t size) noexcept {
  return size == 8 ? look_at(static_cast<const std::uint64_t*>(pointer(at)))
                   : look_at(static_cast<const std::uint32_t*>(pointer(at)));
}
LCI_ANYWHERE inline void store_word(std::uint64_t at, std::uint64_t size,
                                    std::uint64_t bits) noexcept {
  if (size == 8) {
    wqe::word_at<std::uint64_t>(static_cast<std::uint64_t*>(pointer(at)))
        .store(bits, std::memory_order_relaxed);
  } else {
    wqe::word_at<std::uint32_t>(static_cast<std::uint32_t*>(pointer(at)))
        .store(static_cast<std::uint32_t>(bits), std::memory_order_relaxed);
  }
}

// `size` bytes, and a signal if one is wanted; one of them at least. `record` may still be under
// way. True: all places are right and mapped, and of one word the bytes are read.
LCI_ANYWHERE inline bool find_mapped_put(const endpoint_t& ep, const record_words& record, int rank,
                                         const place_t& to, put_source what, std::uint64_t size,
                                         const signal_request& signal, mapped_put* out) noexcept {
  if (size != 0) {
    if (to.key.mapped == 0) return false;
    out->to = mapped_address(to);
    std::uint64_t both = out->to;
    if (what.from != nullptr) {
      if (!is_mapped(*what.from, size)) return false;
      out->from = mapped_address(*what.from);
      both |= out->from;
    }
    out->is_word = ((size == 8) | (size == 4)) & ((both & (size - 1)) == 0);
    out->bits = what.bits;
    if (out->is_word && what.from != nullptr) out->bits = read_word(out->from, size);
  }
  const auto owner = static_cast<std::uint32_t>(rank);
  const bool of_card = (size != 0 ? to.key : signal.at.key).of_card != 0;
  bool is_right = true;
  out->is_near = true;
  if (size != 0) {
    out->is_near = to.key.is_near != 0;
    is_right = all(is_mapped(to, size), may_be_of(to.key, owner));
    if (what.from != nullptr) is_right = all(is_right, (what.from->key.of_card != 0) == of_card);
  }
  if (signal.is_wanted) {
    const key_t& k = signal.at.key;
    out->word = mapped_address(signal.at);
    out->is_near = all(out->is_near, k.is_near != 0);
    is_right = all(is_right, is_mapped(signal.at, sizeof(std::uint64_t)), may_be_of(k, owner),
                   (out->word & 7) == 0, (k.of_card != 0) == of_card,
                   (signal.op == signal_op::set) | (k.no_atomics == 0));
  }
  if (!is_right) return false;
  // Here a GPU waits.
  is_right = all(record.generation == ep.generation, owner < record.ranks,
                 (record.over_card != 0) == of_card);
  if (size != 0 && what.from != nullptr)
    is_right = all(is_right, may_be_of(what.from->key, record.me));
  return is_right;
}

// By one thread: a word, or nothing, and the signal.
LCI_ANYWHERE inline void store_mapped(const mapped_put& put, std::uint64_t size,
                                      const signal_request& signal) noexcept {
  if (size == 0) {
    signal_alone(put.word, signal.value, signal.op);
    return;
  }
  store_word(put.to, size, put.bits);
  if (signal.is_wanted) signal_after(put.word, signal.value, signal.op, put.is_near);
}

}  // namespace lci::gpu::detail
