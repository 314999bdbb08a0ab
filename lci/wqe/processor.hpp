// What a processor and a GPU do differently: words that others read or write meanwhile, barriers in
// front of a card, the clock, and a step of waiting. The orders are those of rdma-core
// (util/udma_barrier.h) on processors, and system scope on GPUs, since rings may be in host memory.
// Callers: doorbells, queues and pollers of this room. Threads: any; nothing here has state.
// Always true: on one processor each operation is an atomic one of its width, so a word is never
// seen half written.
#pragma once

#include <sched.h>

#include <atomic>
#include <chrono>
#include <cstdint>

#include "lci/wqe/anywhere.hpp"

#ifdef __CUDACC__
#include <cuda/atomic>
#endif

namespace lci::wqe {

// A view of 4 or 8 bytes in plain memory, aligned to their size: std::atomic_ref for both sides. On
// a GPU memory that others reach too: not a block's shared memory, nor a thread's own.
template <class T>
class word_at {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8, "what both sides do at once");

 public:
  LCI_ANYWHERE explicit word_at(T* at) noexcept : at_(at) {}

  LCI_ANYWHERE T load(std::memory_order order) const noexcept {
#ifdef __CUDA_ARCH__
    return cuda_ref(*at_).load(memory_order_of(order));
#else
    return __atomic_load_n(at_, static_cast<int>(order));
#endif
  }
  LCI_ANYWHERE void store(T value, std::memory_order order) noexcept {
#ifdef __CUDA_ARCH__
    cuda_ref(*at_).store(value, memory_order_of(order));
#else
    __atomic_store_n(at_, value, static_cast<int>(order));
#endif
  }
  LCI_ANYWHERE T fetch_add(T value, std::memory_order order) noexcept {
#ifdef __CUDA_ARCH__
    if (order == std::memory_order_relaxed) return add_in_memory(value);
    return cuda_ref(*at_).fetch_add(value, memory_order_of(order));
#else
    return __atomic_fetch_add(at_, value, static_cast<int>(order));
#endif
  }
  // The word becomes the larger of the two.
  LCI_ANYWHERE void raise_to(T value, std::memory_order order) noexcept {
#ifdef __CUDA_ARCH__
    cuda_ref(*at_).fetch_max(value, memory_order_of(order));
#else
    T now = __atomic_load_n(at_, __ATOMIC_RELAXED);
    while (now < value && !__atomic_compare_exchange_n(at_, &now, value, true,
                                                       static_cast<int>(order), __ATOMIC_RELAXED)) {
    }
#endif
  }
  // True: it was `expected` and is `value` now.
  LCI_ANYWHERE bool compare_exchange_strong(T expected, T value, std::memory_order order) noexcept {
#ifdef __CUDA_ARCH__
    return cuda_ref(*at_).compare_exchange_strong(expected, value, memory_order_of(order),
                                                  ::cuda::std::memory_order_relaxed);
#else
    return __atomic_compare_exchange_n(at_, &expected, value, false, static_cast<int>(order),
                                       __ATOMIC_RELAXED);
#endif
  }

 private:
#ifdef __CUDACC__
  using cuda_ref = ::cuda::atomic_ref<T, ::cuda::thread_scope_system>;
  // Of a word in memory of the GPU, a peer or the host. For an address that may be in a block's
  // shared memory the compiler tests which it was, behind the addition: the thread would stand
  // still until it is done.
  __device__ T add_in_memory(T value) noexcept {
    T old;
    const auto at = __cvta_generic_to_global(at_);
    if constexpr (sizeof(T) == 8) {
      asm volatile("atom.relaxed.sys.global.add.u64 %0, [%1], %2;"
                   : "=l"(old)
                   : "l"(at), "l"(value)
                   : "memory");
    } else {
      asm volatile("atom.relaxed.sys.global.add.u32 %0, [%1], %2;"
                   : "=r"(old)
                   : "l"(at), "r"(value)
                   : "memory");
    }
    return old;
  }
  LCI_ANYWHERE static constexpr ::cuda::std::memory_order memory_order_of(
      std::memory_order order) noexcept {
    return order == std::memory_order_relaxed   ? ::cuda::std::memory_order_relaxed
           : order == std::memory_order_acquire ? ::cuda::std::memory_order_acquire
           : order == std::memory_order_release ? ::cuda::std::memory_order_release
           : order == std::memory_order_acq_rel ? ::cuda::std::memory_order_acq_rel
                                                : ::cuda::std::memory_order_seq_cst;
  }
#endif
  T* at_;
};

// Everything stored before is seen by a card before what is stored after (udma_to_device_barrier).
LCI_ANYWHERE inline void to_card_barrier() noexcept {
#if defined(__CUDA_ARCH__)
  __threadfence_system();
#elif defined(__x86_64__)
  asm volatile("" ::: "memory");
#elif defined(__aarch64__)
  asm volatile("dmb oshst" ::: "memory");
#else
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
#endif
}

// The order of a store behind to_card_barrier() that publishes what was stored, or acquired, before
// the barrier. A GPU's barrier makes any store behind it a release, and one of its own would cost
// as much once more; a processor's release costs nothing.
LCI_ANYWHERE constexpr std::memory_order order_behind_barrier() noexcept {
  return runs_on_gpu() ? std::memory_order_relaxed : std::memory_order_release;
}

// The other half: of a look that comes before to_card_barrier(), for what is done behind it.
LCI_ANYWHERE constexpr std::memory_order order_before_barrier() noexcept {
  return runs_on_gpu() ? std::memory_order_relaxed : std::memory_order_acquire;
}

// As to_card_barrier(), in front of a store to a write-combining register, and behind it, so that
// the store leaves the processor (mmio_wc_start, mmio_flush_writes).
LCI_ANYWHERE inline void register_barrier() noexcept {
#if defined(__CUDA_ARCH__)
  __threadfence_system();
#elif defined(__x86_64__)
  asm volatile("sfence" ::: "memory");
#elif defined(__aarch64__)
  asm volatile("dsb st" ::: "memory");
#else
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
#endif
}

// What a card wrote before the word that was just loaded is read after it
// (udma_from_device_barrier).
LCI_ANYWHERE inline void from_card_barrier() noexcept {
#if defined(__CUDA_ARCH__)
  __threadfence_system();
#elif defined(__x86_64__)
  asm volatile("lfence" ::: "memory");
#elif defined(__aarch64__)
  asm volatile("dmb oshld" ::: "memory");
#else
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
#endif
}

// One store of 8 bytes to a register of the card.
LCI_ANYWHERE inline void store_register(std::uint64_t* at, std::uint64_t value) noexcept {
#if defined(__CUDA_ARCH__)
#if __CUDACC_VER_MAJOR__ * 100 + __CUDACC_VER_MINOR__ >= 1202
  asm volatile("st.mmio.relaxed.sys.u64 [%0], %1;" ::"l"(at), "l"(value) : "memory");
#else
  asm volatile("st.relaxed.sys.u64 [%0], %1;" ::"l"(at), "l"(value) : "memory");
#endif
#else
  // Relaxed: the barriers around a doorbell order it.
  word_at<std::uint64_t>(at).store(value, std::memory_order_relaxed);
#endif
}

// A clock that only grows, in nanoseconds.
LCI_ANYWHERE inline std::uint64_t clock_ns() noexcept {
#ifdef __CUDA_ARCH__
  std::uint64_t now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
#else
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                        std::chrono::steady_clock::now().time_since_epoch())
                                        .count());
#endif
}

// The thread has waited for long: others may need its core. A GPU schedules its warps itself.
LCI_ANYWHERE inline void give_way() noexcept {
#ifdef __CUDA_ARCH__
  __nanosleep(100);
#else
  sched_yield();
#endif
}

}  // namespace lci::wqe
