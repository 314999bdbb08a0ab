// What the kernels that make calls of lci/gpu are given, and what they do: the same lines for every
// suite and the benchmark. Callers: gpu_call_kernels.cu; host programs for the records. Threads: as
// the kernel is launched. Always true: each thread's answer is stored, the first that is not ok.
#pragma once

#include "lci/device.cuh"

namespace lci::test {

// Many threads put numbered messages of mixed sizes, thread i to rank 1 + i % targets. Bytes of a
// message: see byte_of(); its address says who sent it and which of that thread's it is.
struct storm_task {
  gpu::endpoint_t endpoint;
  gpu::key_t to;    // zero-based, of any length
  gpu::key_t from;  // longer messages are read there
  std::uint32_t threads = 0, each = 0, targets = 1;
  gpu::status* answers = nullptr;  // one of each thread
};
inline constexpr unsigned STORM_SHIFT = 24;  // of the thread's number in the address
inline constexpr std::uint32_t STORM_LONG = 300;

LCI_ANYWHERE inline std::uint32_t storm_size(std::uint32_t thread, std::uint32_t count) {
  const std::uint32_t kind = (thread * 7 + count * 3) % 16;
  return kind == 15 ? STORM_LONG : kind == 14 ? 92 : kind >= 12 ? 40 : kind >= 8 ? 24 : 8;
}
LCI_ANYWHERE inline std::uint64_t storm_address(std::uint32_t thread, std::uint32_t count) {
  return std::uint64_t{thread} << STORM_SHIFT | count;
}
LCI_ANYWHERE inline std::uint32_t storm_word(std::uint32_t thread, std::uint32_t count,
                                             std::uint32_t i) {
  return thread * 2654435761u + count * 40503u + i;
}
template <unsigned N>
struct storm_bytes {
  std::uint32_t words[N / 4];
};
template <unsigned N>
LCI_ANYWHERE gpu::status storm_put(const storm_task& t, int rank, std::uint32_t thread,
                                   std::uint32_t count) {
  storm_bytes<N> value;
  for (std::uint32_t i = 0; i < N / 4; ++i) value.words[i] = storm_word(thread, count, i);
  return gpu::put_value(t.endpoint, rank, {t.to, storm_address(thread, count)}, value);
}
LCI_ANYWHERE inline gpu::status storm(const storm_task& t, std::uint32_t thread) {
  const int rank = 1 + static_cast<int>(thread % t.targets);
  for (std::uint32_t count = 0; count < t.each; ++count) {
    const std::uint32_t size = storm_size(thread, count);
    const gpu::status s = size == 8    ? storm_put<8>(t, rank, thread, count)
                          : size == 24 ? storm_put<24>(t, rank, thread, count)
                          : size == 40 ? storm_put<40>(t, rank, thread, count)
                          : size == 92
                              ? storm_put<92>(t, rank, thread, count)
                              : gpu::put(t.endpoint, rank, {t.to, storm_address(thread, count)},
                                         {t.from, 0}, STORM_LONG);
    if (s != gpu::status::ok) return s;
  }
  return gpu::quiet(t.endpoint, rank);
}

// Two blocks of one kernel, or two kernels of one, rank 0 and rank 1, take turns.
struct turns_task {
  std::uint32_t first = 0;  // rank of the first block
  gpu::endpoint_t endpoints[2];
  gpu::key_t memory[2];          // of each rank, as the other names it
  gpu::key_t own[2];             // as it itself names it
  std::uint64_t* words[2] = {};  // the signal of each, where it itself reads it
  std::uint64_t signal_offset = 0;
  std::uint64_t size = 0;    // of the data; 0: the signal alone
  std::uint64_t target = 0;  // where data goes
  std::uint32_t rounds = 0;
  std::uint64_t* times = nullptr;  // of each rank: nanoseconds of all rounds
  gpu::status* answers = nullptr;  // one of each rank
};
template <class Scope>
LCI_ANYWHERE gpu::status take_turns(const turns_task& t, int me) {
  // In registers: a kernel's parameters are not, where an index is not known.
  const int you = 1 - me;
  const gpu::endpoint_t ep = t.endpoints[me];
  const gpu::place_t word{t.memory[you], t.signal_offset}, to{t.memory[you], t.target};
  const gpu::place_t from{t.own[me], 0};
  const std::uint64_t* const mine = t.words[me];
  for (std::uint64_t round = 1; round <= t.rounds; ++round) {
    for (int step = 0; step < 2; ++step) {
      gpu::status s = gpu::status::ok;
      if (step == me) {
        s = t.size == 0 ? gpu::signal<Scope>(ep, you, word, round)
                        : gpu::put_signal<Scope>(ep, you, to, from, t.size, word, round);
      } else {
        s = gpu::wait_until<Scope>(ep, mine, gpu::comparison::equal, round, you);
      }
      if (s != gpu::status::ok) return s;
    }
  }
  return gpu::status::ok;
}
#ifdef __CUDACC__
template <class Scope>
__device__ void run_turns(const turns_task& t) {
  const auto me = static_cast<int>(t.first + blockIdx.x);
  const std::uint64_t begin = wqe::clock_ns();
  const gpu::status s = take_turns<Scope>(t, me);
  if (threadIdx.x != 0) return;
  t.answers[me] = s;
  t.times[me] = wqe::clock_ns() - begin;
}
#endif

// Every member of a scope makes one of these calls, `each` times.
enum class call_kind : std::uint32_t {
  put,
  get,
  add,
  fetch_add,  // waits; the old values are summed in `sum`
  swap_4,
  compare_swap,  // until it has added one, `each` times
  put_signal,    // adds one
  wait,
  quiet,
};
struct call_task {
  gpu::endpoint_t endpoint;
  call_kind kind = call_kind::put;
  int rank = 1;
  gpu::place_t to, from, word;
  std::uint64_t size = 0, stride = 0;  // each caller's piece is `stride` behind the one before
  std::uint64_t* own_word = nullptr;
  std::uint64_t* sum = nullptr;
  std::uint32_t each = 1;
  gpu::status* answers = nullptr;  // one of each thread
};

template <class Scope>
LCI_ANYWHERE gpu::status compare_swap_once(const call_task& t) {
  std::uint64_t expected = 0, old = 0;
  for (;;) {
    const gpu::status s =
        gpu::compare_swap<Scope>(t.endpoint, t.rank, t.word, expected, expected + 1, &old);
    if (s != gpu::status::ok || old == expected) return s;
    expected = old;
  }
}
template <class Scope>
LCI_ANYWHERE gpu::status make_call(const call_task& t, std::uint64_t caller, bool leads) {
  gpu::place_t to = t.to, from = t.from;
  to.offset += caller * t.stride;
  from.offset += caller * t.stride;
  std::uint64_t old = 0;
  std::uint32_t old_4 = 0;
  gpu::status s = gpu::status::ok;
  switch (t.kind) {
    case call_kind::put:
      return gpu::put<Scope>(t.endpoint, t.rank, to, from, t.size);
    case call_kind::get:
      return gpu::get<Scope>(t.endpoint, t.rank, to, from, t.size);
    case call_kind::add:
      return gpu::add<Scope>(t.endpoint, t.rank, t.word, std::uint64_t{1});
    case call_kind::fetch_add:
      s = gpu::fetch_add<Scope>(t.endpoint, t.rank, t.word, std::uint64_t{1}, &old);
      break;
    case call_kind::swap_4:
      s = gpu::swap<Scope>(t.endpoint, t.rank, t.word, static_cast<std::uint32_t>(caller + 1),
                           &old_4);
      old = old_4;
      break;
    case call_kind::compare_swap:
      return compare_swap_once<Scope>(t);
    case call_kind::put_signal:
      return gpu::put_signal<Scope>(t.endpoint, t.rank, to, from, t.size, t.word, 1,
                                    gpu::signal_op::add);
    case call_kind::wait:
      return gpu::wait_until<Scope>(t.endpoint, t.own_word, gpu::comparison::greater_equal, t.size,
                                    t.rank);
    case call_kind::quiet:
      return gpu::quiet<Scope>(t.endpoint);
  }
  if (leads && s == gpu::status::ok)
    wqe::word_at<std::uint64_t>(t.sum).fetch_add(old, std::memory_order_relaxed);
  return s;
}
template <class Scope>
LCI_ANYWHERE gpu::status make_calls(const call_task& t, std::uint64_t caller, bool leads) {
  for (std::uint32_t i = 0; i < t.each; ++i)
    if (const gpu::status s = make_call<Scope>(t, caller, leads); s != gpu::status::ok) return s;
  return t.kind == call_kind::wait ? gpu::status::ok : gpu::quiet<Scope>(t.endpoint);
}

}  // namespace lci::test
