// What a kernel of the suite of real endpoints is given, where things are in the memory that it
// works on, and how it says what went wrong. Callers: product_calls.hpp, product_messages.hpp and
// tests/accelerator/product. Threads: a caller is a thread, a warp or a block, or a thread of the
// process. Always true: each caller has a slice of its own in the memory of each rank, which one
// caller of the rank before writes; contents depend on who wrote them, and on its turn.
#pragma once

#include "lci/device.cuh"

namespace lci::test::product {

using gpu::status;

// What a member of a caller has met: the line that failed and what the call there said.
struct fault {
  std::int32_t line = 0;  // 0: none; NOT_RUN: its kernel has not come to an end
  status said = status::ok;
};
inline constexpr std::int32_t NOT_RUN = -1;

// Each returns from the function it is in.
#define LCI_TEST_SAYS(call, wanted)                                     \
  if (const lci::gpu::status said_here = (call); said_here != (wanted)) \
    return lci::test::product::fault { __LINE__, said_here }
#define LCI_TEST_OK(call) LCI_TEST_SAYS(call, lci::gpu::status::ok)
#define LCI_TEST_TRUE(condition)                       \
  if (!(condition)) return lci::test::product::fault { \
      __LINE__, lci::gpu::status::ok                   \
    }
#define LCI_TEST_PASS(call) \
  if (const lci::test::product::fault found_here = (call); found_here.line != 0) return found_here

enum class kind : std::uint32_t {
  put_and_get,
  put_signal,
  values,
  atomics,
  several_words,
  barrier,
  receives,
  receive_too_short,
  active_messages,
  to_host,
  post_receive,
  wait_in_vain,
};

// The memory of a rank: words that all share, and then the slices.
inline constexpr std::uint64_t SUM = 0, BARRIER = 64, ROUNDS = 128, TAKEN = 1024;
inline constexpr std::uint64_t SLICES = 8192, SLICE = 65536;
// In a slice; each but the last is of MOST bytes.
inline constexpr std::uint64_t MOST = 16384, OUT = 0, IN = MOST, BACK = 2 * MOST, WORDS = 3 * MOST;
inline constexpr std::uint64_t MOST_CALLERS = 64;
inline constexpr std::uint64_t MEMORY = SLICES + MOST_CALLERS * SLICE;

inline constexpr std::uint64_t ADDITIONS = 5;  // of each caller, by each of two calls
inline constexpr std::uint64_t MESSAGES = 6;   // of each caller to a queue, or to the host
inline constexpr std::uint64_t ITEM = 200;     // bytes of one out of memory
inline constexpr std::uint64_t PATIENCE_NS = 20'000'000'000;

struct task {
  kind what = kind::put_and_get;
  gpu::endpoint_t first, second;
  int me = 0, to = 0, of = 0;  // this rank, the next one and the one before
  gpu::key_t there;            // the memory of rank `to`
  gpu::key_t own, plain;       // of this rank: as kernels reach it, and as requests alone do
  unsigned char* memory = nullptr;
  const gpu::place_t* barrier_words = nullptr;  // of each rank
  gpu::queue_t queue;
  std::uint32_t to_queue = 0, to_host = 0;  // remote completions
  status wanted = status::ok;               // of a wait in vain
  fault* faults = nullptr;                  // of each member
};

struct caller {
  std::uint64_t number = 0;
};

LCI_ANYWHERE inline std::uint64_t offset_of(const caller& who, std::uint64_t in_slice) {
  return SLICES + who.number * SLICE + in_slice;
}
LCI_ANYWHERE inline gpu::place_t at(const gpu::key_t& key, const caller& who,
                                    std::uint64_t in_slice) {
  return {key, offset_of(who, in_slice)};
}
LCI_ANYWHERE inline unsigned char* bytes(const task& t, const caller& who, std::uint64_t in_slice) {
  return t.memory + offset_of(who, in_slice);
}
LCI_ANYWHERE inline std::uint64_t* words(const task& t, const caller& who) {
  return reinterpret_cast<std::uint64_t*>(bytes(t, who, WORDS));
}

LCI_ANYWHERE inline std::uint64_t seed_of(int rank, const caller& who, std::uint64_t turn) {
  return static_cast<std::uint64_t>(rank) * 4099 + who.number * 67 + turn;
}
LCI_ANYWHERE inline unsigned char byte_of(std::uint64_t seed, std::uint64_t i) {
  return static_cast<unsigned char>(i * 31 + i / 251 + seed * 97);
}
// By all members.
template <class Scope>
LCI_ANYWHERE void fill(unsigned char* at, std::uint64_t size, std::uint64_t seed) {
  for (std::uint64_t i = Scope::index(); i < size; i += Scope::size()) at[i] = byte_of(seed, i);
}
// Each member looks at all of it.
LCI_ANYWHERE inline bool is_filled(const unsigned char* at, std::uint64_t size,
                                   std::uint64_t seed) {
  std::uint64_t wrong = 0;
  for (std::uint64_t i = 0; i < size; ++i) wrong += at[i] != byte_of(seed, i);
  return wrong == 0;
}

// For loops that look: whether they may go on.
class limited {
 public:
  LCI_ANYWHERE bool operator()() const { return wqe::clock_ns() - begin_ < PATIENCE_NS; }

 private:
  std::uint64_t begin_ = wqe::clock_ns();
};

}  // namespace lci::test::product
