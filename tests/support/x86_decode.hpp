// Just enough of the x86-64 instruction format to say which memory an instruction is about to
// touch.
//
// Used by the single-stepper, in the tracing process. Threads: pure function. Always true: an
// instruction that is not understood says so (`understood` false) instead of answering with a
// guess; lengths are not decoded, since the stepper sees where the next instruction starts.
#pragma once

#include <sys/user.h>

#include <cstdint>

namespace lci::test {

struct x86_access {
  std::uint64_t address = 0;
  std::uint32_t size = 0;     // bytes, estimated from the operand size; 0 = no access
  bool rip_relative = false;  // address is an offset from the next instruction
};

struct x86_instruction {
  bool understood = true;
  bool is_locked = false;  // lock prefix, or xchg with memory, which locks without one
  bool is_fence = false;   // mfence: waits for the store buffer as a locked instruction does
  bool is_syscall = false;
  bool reads_clock = false;  // rdtsc or rdtscp
  bool is_repeated = false;  // rep prefix on a string instruction: one trap per round
  x86_access accesses[2];
};

#if defined(__x86_64__)
// code: at least 15 readable bytes at regs.rip.
x86_instruction decode_x86(const unsigned char* code, const user_regs_struct& regs);
#endif

}  // namespace lci::test
