// What the processor and the resident copy kernel say to each other, in pinned host memory. Read by
// both compilers, and by the mock driver, whose kernel is a thread. Callers: resident,
// device/resident.cu. Threads: types only.
// Always true: each block reads a ring of its own, in order. A command is four parts of 16 bytes,
// each of which the GPU reads at once; a part is there when its turn is the one expected, and the
// command when all are. There are as many places in a ring as commands can be under way, so that
// none is written before the one that was there was read.
#pragma once

#include <cstddef>
#include <cstdint>

namespace lci::cuda::resident_layout {

inline constexpr unsigned SLOTS = 64;  // commands under way, and places of each ring
inline constexpr unsigned MOST_BLOCKS = 64;
inline constexpr unsigned THREADS = 256;  // of a block
inline constexpr unsigned AT_ONCE = 8;    // commands that a block takes at one look
inline constexpr unsigned INLINE = 8;     // bytes that travel in the command
inline constexpr unsigned BYTES = 256;    // room for those of a delivery
inline constexpr const char* KERNEL = "lci_resident_copy";

// `tail`: the detail in the low half, the turn in the high one. A reader that sees the turn sees
// the rest.
struct part {
  std::uint64_t value;
  std::uint64_t tail;
};

// parts[0]: where to, how many bytes
// parts[1]: where from or the bytes themselves, how many blocks share the command
// parts[2]: address of a flag or 0, slot and `kind` << 8 and `form` << 16
// parts[3]: value of the flag, number that says that the command is done
// An ATOMIC changes the word at `to`. In parts[1] is what is added or written, in parts[2] what is
// compared, in parts[3] the address for the answer.
struct alignas(64) command {
  part parts[4];
};
inline constexpr unsigned TO = 0, FROM = 1, FLAG = 2, VALUE = 3;                      // of parts
inline constexpr unsigned FROM_GPU = 0, FROM_HOST = 1, FROM_COMMAND = 2, ATOMIC = 3;  // kinds
// Forms. Of the flag of a copy: stored in host memory otherwise; added to or stored in a word of
// the GPU, and there before the command is done. Of an ATOMIC, which adds otherwise.
inline constexpr unsigned FLAG_ADD = 1, FLAG_SET = 2;
inline constexpr unsigned SWAP = 1, COMPARE = 2;  // COMPARE beside SWAP: if all bits are equal

// Written by the processor, but for started, ended and done.
struct control {
  alignas(64) std::uint32_t stop;         // the launch that is to end
  alignas(64) std::uint32_t started;      // the launch of which all blocks look at their rings
  std::uint32_t ended;                    // the launch that touches nothing any more
  alignas(64) std::uint32_t done[SLOTS];  // the number in the command that has ended last
  alignas(64) std::uint32_t first[MOST_BLOCKS];  // the turn at which a launch begins, by ring
  alignas(64) std::uint64_t old[SLOTS];  // answers of ATOMIC, there before `done`; by the kernel
  // Bytes of deliveries, of which a command says where they are.
  alignas(64) unsigned char bytes[SLOTS][BYTES];
};

// The kernel's only parameter. Addresses as the GPU names them.
struct arguments {
  control* shared;
  command* rings;  // SLOTS for each block
  std::uint32_t launch;
  std::uint32_t unused;
  std::uint64_t idle_ns;  // without a command the kernel ends after this,
  std::uint64_t life_ns;  // and with commands after this
};

static_assert(sizeof(part) == 16 && sizeof(command) == 64);
static_assert(offsetof(control, started) == 64 && offsetof(control, done) == 128 &&
              offsetof(control, first) == 384 && offsetof(control, old) == 640 &&
              offsetof(control, bytes) == 1152 && sizeof(control) == 17536);
static_assert(sizeof(arguments) == 40);
static_assert(AT_ONCE <= THREADS / 32 && AT_ONCE * 4 == 32,
              "a warp reads them, a warp copies each");
static_assert(SLOTS < 256 && INLINE <= sizeof(part::value));

}  // namespace lci::cuda::resident_layout
