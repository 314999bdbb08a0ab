// What a measured process does: it waits for orders on the board, executes the pattern that each
// names with the calls of its library, and writes down when it began and ended. One code for lci
// and for every rival, so that all are measured alike.
// Called by: lci_worker and the rivals' programs. Threads: one per seat, each in serve().
// Always true: a pattern returns on both sides only when all its messages have arrived.
//
// A port is one end of a pair, for one operation of one library. It has
//   start(data, size)   begins to send; finish() returns when all that began may be overwritten
//   start(data, size, is_last)   in its place where a put is not announced, except the last
//                       one before an answer
//   expect(data, size)  receives that a sender may use; wait() returns when all expected are there
//   launch()            where start() only notes what is to begin: begins it, and does not wait
//   send, recv          the same for one message, the shortest way that the library has
//   progress()          lets the other end go on
#pragma once

#include <malloc.h>

#include <algorithm>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "tools/perf/board.hpp"
#include "tools/perf/page_memory.hpp"

namespace lci_perf {

class seat {
 public:
  seat(board& b, int pair, bool is_first)
      : board_(b), pair_(pair), is_first_(is_first), number_(2 * pair + (is_first ? 0 : 1)) {}

  board& page() const { return board_; }
  bool is_first() const { return is_first_; }
  int pair() const { return pair_; }
  int cpu() const { return board_.cpus[number_]; }
  void pin() const { pin_to(cpu()); }
  result& mine() const { return board_.results[number_]; }
  void count(std::uint64_t messages) const {
    const std::atomic_ref<std::uint64_t> all(mine().messages);
    // A number alone, which contestant::await() looks at now and then; this thread alone writes it.
    all.store(all.load(std::memory_order_relaxed) + messages, std::memory_order_relaxed);
  }

  // Returns when all seats are here. The library under test must have no work left for others.
  void meet() {
    const std::uint64_t round = ++meetings_;
    // edge perf.meet, writer: what was done before is visible to all that leave; each seat is the
    // other side of all others.
    if (board_.arrived.value.fetch_add(1, std::memory_order_acq_rel) + 1 == round * board_.seats) {
      board_.begun.value.store(round, std::memory_order_release);
    }
    // edge perf.meet, reader
    for (patience step; board_.begun.value.load(std::memory_order_acquire) < round;) step();
  }
  // The first of a pair tells the other that it needs no progress any more.
  void end_pair() {
    // edge perf.end, writer: partner is has_ended().
    board_.finished[pair_].value.store(meetings_, std::memory_order_release);
  }
  bool has_ended() const {
    // edge perf.end, reader
    return board_.finished[pair_].value.load(std::memory_order_acquire) >= meetings_;
  }

  // Calls execute(order) for each order until the last one. False: another seat has failed.
  template <class Execute>
  void serve(Execute execute) {
    for (std::uint32_t done = 0;; ++done) {
      report_ready();
      // edge perf.order, reader: the order was written before its number; partner is
      // contestant::give().
      while (board_.number.load(std::memory_order_acquire) == done) sleep_on(board_.number, done);
      if (board_.now.is_last != 0) return;
      mine() = result{};
      execute(board_.now);
    }
  }
  void report_ready() {
    // edge perf.ready, writer: the results are visible to contestant::await().
    board_.ready.fetch_add(1, std::memory_order_release);
    wake_all(board_.ready);
  }

 private:
  board& board_;
  int pair_;
  bool is_first_;
  int number_;
  std::uint64_t meetings_ = 0;
};

template <class Port>
void start(Port& port, char* data, std::size_t size, bool is_last) {
  if constexpr (requires { port.start(data, size, is_last); })
    port.start(data, size, is_last);
  else
    port.start(data, size);
}

// Messages there and back: half the time of a round trip is the way of one.
template <class Port>
void round_trips(seat& s, Port& port, char* out, char* in, const order& o) {
  const std::uint64_t step = step_of(o.size, 1u << 14);  // so seldom that counting costs nothing
  for (std::uint64_t done = 0; done < o.count; done += step) {
    const std::uint64_t more = std::min(step, o.count - done);
    for (std::uint64_t i = 0; i < more; ++i) {
      if (s.is_first()) port.send(out, o.size);
      port.recv(in, o.size);
      if (!s.is_first()) port.send(out, o.size);
    }
    s.count(more);
  }
}

// Windows of messages; the target answers each with a short message when it has all of it.
template <class Port>
void windows(seat& s, Port& port, char* out, char* in, const order& o) {
  for (std::uint64_t done = 0; done < o.count; done += o.window) {
    if (s.is_first()) {
      for (std::uint32_t i = 1; i <= o.window; ++i) start(port, out, o.size, i == o.window);
      port.finish();
      port.recv(in, 8);
    } else {
      for (std::uint32_t i = 0; i < o.window; ++i) port.expect(in, o.size);
      port.wait();
      port.send(out, 8);
      s.count(o.window);
    }
  }
}

// Reads of the other side's memory, in windows; it does nothing but let them go on.
template <class Port>
void reads(seat& s, Port& port, char* in, const order& o) {
  if (s.is_first()) {
    for (std::uint64_t done = 0; done < o.count; done += o.window) {
      for (std::uint32_t i = 0; i < o.window; ++i) start(port, in, o.size, true);
      port.finish();
      s.count(o.window);
    }
  }
}

// The time of one transfer, then the same with a computation of that length between its start and
// its end, during which the library gets no call: the share of the shorter one that is hidden.
template <class Port>
void overlapped(seat& s, Port& port, char* out, char* in, const order& o) {
  std::uint64_t alone = 0;
  for (const bool computes : {false, true}) {
    const std::uint64_t begin = now_ns();
    for (std::uint64_t i = 0; i < o.count; ++i) {
      if (s.is_first()) {
        start(port, out, o.size, true);
        if constexpr (requires { port.launch(); }) port.launch();
        const std::uint64_t until = now_ns() + alone;
        while (computes && now_ns() < until) continue;
        port.finish();
        port.recv(in, 8);
      } else {
        port.expect(in, o.size);
        port.wait();
        port.send(out, 8);
        s.count(1);
      }
    }
    const std::uint64_t each = (now_ns() - begin) / o.count;
    if (computes && alone > 0) {
      const double hidden = 2.0 - static_cast<double>(each) / static_cast<double>(alone);
      s.mine().hidden = std::clamp(hidden, 0.0, 1.0);
    }
    alone = each;
  }
}

template <class Port>
void execute(seat& s, Port& port, char* out, char* in, const order& o) {
  s.meet();
  s.mine().begin_ns = now_ns();
  if (o.op == operation::get) {
    reads(s, port, in, o);
  } else if (o.what == measure::latency) {
    round_trips(s, port, out, in, o);
  } else if (o.what == measure::overlap) {
    overlapped(s, port, out, in, o);
  } else {
    windows(s, port, out, in, o);
  }
  s.mine().end_ns = now_ns();
  // What the first has begun may need the other side, even to end.
  if (s.is_first()) s.end_pair();
  while (!s.has_ended()) port.progress();
}

// Bytes that are written, so that they are in memory before anything is timed.
using page_buffer = std::vector<char, page_allocator<char>>;
inline page_buffer buffer_of(const board& b) {
  return page_buffer(std::max<std::size_t>(b.largest, PAGE), 'p');
}

// Runs a part of a process: what it throws ends the process at once, and is said on the board.
// Objects of its caller are not freed: that may wait for other processes, which wait for this one.
template <class Body>
void run_part(board& page, Body body) {
  try {
    body();
  } catch (const std::exception& problem) {
    // The first has the reason: others fail because its process has ended.
    if (page.error[0] == 0) std::snprintf(page.error, sizeof page.error, "%s", problem.what());
    wake_all(page.ready);
    std::_Exit(1);
  }
}

// Calls serve(pair, is_first) for each seat of the process of this rank, in a thread for each.
template <class Serve>
void run_seats(board& page, int rank, Serve serve) {
  const int pairs = static_cast<int>(page.pairs);
  if (page.is_threads == 0) return run_part(page, [&] { serve(rank % pairs, rank < pairs); });
  std::vector<std::thread> others;
  for (int pair = 1; pair < pairs; ++pair)
    others.emplace_back([&, pair] { run_part(page, [&] { serve(pair, rank == 0); }); });
  run_part(page, [&] { serve(0, rank == 0); });
  for (std::thread& other : others) other.join();
}

// Runs a process of a library, in its main thread.
template <class Body>
int run_worker(const char* name, Body body) {
  // What a library takes from malloc() for a large message stays with the process, or the
  // measurement would be of the kernel zeroing fresh pages. No mappings, instead of a large
  // M_MMAP_THRESHOLD: before glibc 2.35 that is refused beyond 32 MiB.
  mallopt(M_MMAP_MAX, 0);
  mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
  try {
    board& page = join_board();
    run_part(page, [&] { body(page); });
    return 0;
  } catch (const std::exception& problem) {
    std::fprintf(stderr, "%s: %s\n", name, problem.what());
    return 1;
  }
}

}  // namespace lci_perf
