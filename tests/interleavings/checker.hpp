// Source files of the library under Relacy, a checker of algorithms for relaxed memory models: its
// threads are fibers of one thread, every access to an atomic is a step after which another thread
// may go on, and a load answers any value that the memory model of C++ allows, also one that was
// overwritten. A plain variable (rl::var) that two threads use without an order between them is
// reported.
//
// Include this first (with GoogleTest, since Relacy gives other meanings to words), then the
// library's files, .cpp as well: std::atomic is checked_atomic in them, membarrier a fence of all
// threads, and the clock stands still. A test may weaken one operation, to see that the checker
// notices. Threads: one, which plays all. Always true: an atomic made outside of a check is an
// ordinary variable.
#pragma once

#include <gtest/gtest.h>
#include <linux/membarrier.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <mutex>
#include <new>
#include <streambuf>
#include <string>
#include <type_traits>

// Relacy defines these inline; the libraries are to call the same ones as we do.
[[gnu::used]] void* operator new(std::size_t size);
[[gnu::used]] void* operator new[](std::size_t size);
[[gnu::used]] void operator delete(void* p) noexcept;
[[gnu::used]] void operator delete[](void* p) noexcept;
#pragma push_macro("errno")
#include <relacy/relacy.hpp>
#pragma pop_macro("errno")
// Relacy's spellings of words that the sources use as they are.
#undef assert
#undef calloc
#undef delete
#undef free
#undef malloc
#undef memory_order_acq_rel
#undef memory_order_acquire
#undef memory_order_consume
#undef memory_order_relaxed
#undef memory_order_release
#undef memory_order_seq_cst
#undef new
#undef realloc
#undef sched_yield

namespace lci::test {

// Called after every step: this fiber goes on, so what is thread_local is to be its own.
void resume_thread() noexcept;

// The operation of that order in functions of that name is relaxed instead.
struct weakening {
  const char* function;
  std::memory_order order;
};
inline const weakening* weakened = nullptr;
// A test with one edge less.
class with_weakening : public testing::TestWithParam<weakening> {
 protected:
  void SetUp() override { weakened = &GetParam(); }
  void TearDown() override { weakened = nullptr; }
};

// Where the sources use an atomic, as a default argument. std::source_location is not there with
// clang 14.
struct place {
  const char* function;
  const char* file;
  int line;

  static place current(const char* function = __builtin_FUNCTION(),
                       const char* file = __builtin_FILE(), int line = __builtin_LINE()) noexcept {
    return {function, file, line};
  }
};

inline rl::debug_info place_of(const place& where) {
  return {where.function, where.file, static_cast<unsigned>(where.line)};
}

inline rl::memory_order order_at(std::memory_order order, const place& where) {
  if (weakened != nullptr && weakened->order == order &&
      std::strcmp(where.function, weakened->function) == 0)
    return rl::mo_relaxed;
  switch (order) {
    case std::memory_order_relaxed:
      return rl::mo_relaxed;
    case std::memory_order_consume:
      return rl::mo_consume;
    case std::memory_order_acquire:
      return rl::mo_acquire;
    case std::memory_order_release:
      return rl::mo_release;
    case std::memory_order_acq_rel:
      return rl::mo_acq_rel;
    case std::memory_order_seq_cst:
      break;
  }
  return rl::mo_seq_cst;
}

template <class T>
class checked_atomic {
  using atomic_word = rl::atomic<std::uint64_t>;
  using order = std::memory_order;

 public:
  constexpr checked_atomic() noexcept : checked_atomic(T()) {}
  constexpr checked_atomic(T value) noexcept : plain_(value) {
    if (std::is_constant_evaluated() || !rl::is_ctx()) return;
    it_ = ::new (static_cast<void*>(store_)) atomic_word;
    it_->store(bits_of(value), rl::mo_relaxed, place_of(place::current()));
  }
  constexpr ~checked_atomic() {
    if (it_ != nullptr) it_->~atomic_word();
  }
  checked_atomic(const checked_atomic&) = delete;
  checked_atomic& operator=(const checked_atomic&) = delete;

  T load(order how, place where = place::current()) const noexcept {
    if (it_ == nullptr) return plain_;
    const T value = value_of(it_->load(order_at(how, where), place_of(where)));
    resume_thread();
    return value;
  }
  void store(T value, order how, place where = place::current()) noexcept {
    plain_ = value;
    if (it_ == nullptr) return;
    it_->store(bits_of(value), order_at(how, where), place_of(where));
    resume_thread();
  }
  T exchange(T value, order how, place where = place::current()) noexcept {
    if (it_ == nullptr) return std::exchange(plain_, value);
    const rl::rmw_type_t<rl::rmw_type_swap> swap;
    const T old = value_of(it_->rmw(swap, bits_of(value), order_at(how, where), place_of(where)));
    resume_thread();
    return old;
  }

  bool compare_exchange_weak(T& expected, T value, order how,
                             place where = place::current()) noexcept {
    return compare_exchange<true>(expected, value, how, where);
  }
  bool compare_exchange_strong(T& expected, T value, order how,
                               place where = place::current()) noexcept {
    return compare_exchange<false>(expected, value, how, where);
  }
  bool compare_exchange_strong(T& expected, T value, order how, order,
                               place where = place::current()) noexcept {
    return compare_exchange<false>(expected, value, how, where);
  }
  T fetch_or(T value, order how, place where = place::current()) noexcept {
    if (it_ == nullptr) return std::exchange(plain_, plain_ | value);
    const rl::rmw_type_t<rl::rmw_type_or> merge;
    const T old = value_of(it_->rmw(merge, bits_of(value), order_at(how, where), place_of(where)));
    resume_thread();
    return old;
  }

 private:
  template <bool is_weak>
  bool compare_exchange(T& expected, T value, order how, const place& where) noexcept {
    if (it_ == nullptr) {
      if (plain_ != expected) {
        expected = plain_;
        return false;
      }
      plain_ = value;
      return true;
    }
    std::uint64_t bits = bits_of(expected);
    const rl::memory_order as = order_at(how, where);
    const bool is_done =
        is_weak ? it_->compare_exchange_weak(bits, bits_of(value), as, place_of(where))
                : it_->compare_exchange_strong(bits, bits_of(value), as, place_of(where));
    expected = value_of(bits);
    resume_thread();
    return is_done;
  }
  static std::uint64_t bits_of(T value) noexcept {
    if constexpr (std::is_pointer_v<T>)
      return reinterpret_cast<std::uintptr_t>(value);
    else
      return static_cast<std::uint64_t>(value);
  }
  static T value_of(std::uint64_t bits) noexcept {
    if constexpr (std::is_pointer_v<T>)
      return reinterpret_cast<T>(bits);
    else
      return static_cast<T>(bits);
  }

  T plain_;
  alignas(atomic_word) std::byte store_[sizeof(atomic_word)] = {};
  atomic_word* it_ = nullptr;
};

inline void yield_step() noexcept {
  rl::yield(1, place_of(place::current()));
  resume_thread();
}

template <class... Arguments>
long system_call(long number, int command, Arguments...) noexcept {
  if (number != SYS_membarrier) std::abort();
  if (command == MEMBARRIER_CMD_PRIVATE_EXPEDITED) {
    rl::systemwide_fence(place_of(place::current()));
    resume_thread();
  }
  return 0;
}

// What Relacy says. Of fixed size, since it is written while memory comes from Relacy.
class said : public std::streambuf {
 public:
  said() { setp(text_.data(), text_.data() + text_.size()); }
  std::string text() const { return {pbase(), pptr()}; }

 private:
  std::array<char, 1 << 16> text_{};
};

struct verdict {
  rl::test_result_e result;
  unsigned long long executions;
  std::string text;
};

// Every execution of the suite with at most so many switches of threads that nothing asks for (with
// more, steps soon have more orders than there is time for); or that many random ones.
template <class Suite>
verdict check(rl::scheduler_type_e how, unsigned switches, unsigned long long executions = 0) {
  rl::test_params wanted;
  said heard;
  std::ostream out(&heard);
  wanted.output_stream = wanted.progress_stream = &out;
  wanted.progress_output_period = ~0u;
  wanted.search_type = how;
  wanted.context_bound = switches;
  wanted.iteration_count = executions;
  rl::simulate<Suite>(wanted);
  return {wanted.test_result, wanted.stop_iteration, heard.text()};
}

}  // namespace lci::test

namespace std {
template <class T>
using lci_checked_atomic = lci::test::checked_atomic<T>;
}

#define cpu_relax platform_cpu_relax
#define cpu_ticks platform_cpu_ticks
#define ticks_per_ms platform_ticks_per_ms
#include "lci/base/platform.hpp"
#undef cpu_relax
#undef cpu_ticks
#undef ticks_per_ms
namespace lci::base {
inline void cpu_relax() noexcept { test::yield_step(); }
inline std::uint64_t cpu_ticks() noexcept { return 1000; }
inline std::uint64_t ticks_per_ms() { return 0; }  // any time is over at once
}  // namespace lci::base

#define atomic lci_checked_atomic
#define sched_yield lci::test::yield_step
#define syscall lci::test::system_call
