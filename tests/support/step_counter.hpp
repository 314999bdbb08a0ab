// Counts what a piece of code costs, where there are no hardware counters: instructions, locked
// instructions, system calls and cache lines, by running it one instruction at a time under ptrace.
//
// A test gives count_steps() a function that marks the parts to count; it runs in a forked child.
// LCI_STEP_TRACE=FILE writes each counted instruction to FILE.PID, as section, module and offset:
// addr2line -i tells from it which function the instructions belong to.
// Threads: the child has one thread at the start; only that one is stepped.
// Always true: counts do not depend on how fast the machine is; where the code under test looks at
// the clock, step_freeze_clock() keeps it from seeing how slowly it runs.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/code_range.hpp"

namespace lci::test {

struct step_section {
  int id = 0;
  std::uint64_t instructions = 0;  // a repeated string instruction counts once
  std::uint64_t locked = 0;        // lock prefix, xchg with memory, mfence
  std::uint64_t system_calls = 0;
  std::uint64_t not_understood = 0;  // instructions whose memory is missing in `lines`
  std::vector<std::uint64_t>
      lines;  // addresses of distinct cache lines touched, sorted, the stack left out
  // Those of `lines` that other processes or mappings may see: {inode of the mapped file, offset in
  // it}, sorted. The same line has the same name through every mapping.
  std::vector<std::pair<std::uint64_t, std::uint64_t>> shared_lines;
  std::uint64_t calls_left_out = 0;    // into code that is not counted
  std::uint64_t stack_lines = 0;       // distinct cache lines of the stack
  std::vector<std::string> expensive;  // where each locked instruction and system call is
  std::uint64_t watched = 0;           // instructions in watched code
  std::string first_watched;           // where the first of them is

  // Distinct cache lines touched in [begin, begin + size).
  std::uint64_t lines_in(const void* begin, std::size_t size) const;
};

struct step_report {
  std::string failure;                 // empty, or why there are no counts
  std::vector<step_section> sections;  // in the order of their begin marks
};

// Empty where code can be stepped; else the sentence to skip a test with.
std::string step_counter_missing();

// Runs `body` in a child process; counts between step_begin(id) and step_end(). A test failure
// inside the child, or its death, is in `failure`. left_out: code that is not counted, with all
// that it calls: a stand-in for something that is not ours; it may not look at a frozen clock.
// watched: sorted.
step_report count_steps(const std::function<void()>& body, code_range left_out = {},
                        std::vector<code_range> watched = {});

// The marks. Outside count_steps() they kill the process, so they belong in its body only. They add
// one or two instructions to a section.
inline void step_begin(int id) {
#if defined(__x86_64__)
  asm volatile("int3" : : "D"(id) : "memory");
#else
  (void)id;
#endif
}
inline void step_end() { step_begin(-1); }

// Inside count_steps(): the processor's clock stands still for this process (one tick per look),
// inside sections and between them, until it is let go. Code that looks after something once a
// millisecond would otherwise do so in every section. False where the system cannot do it.
bool step_freeze_clock(bool frozen = true);

}  // namespace lci::test
