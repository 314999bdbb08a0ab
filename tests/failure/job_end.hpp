// How one rank of a job ends that loses a rank, or memory, and what each of them is checked for.
// Used by kills and no_memory. Threads: the process's only one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "tests/support/leak_guard.hpp"

namespace lci::test {

// The status of its process.
enum class job_end : int {
  well = 0,
  lost = 10,       // peer_failure_error: a peer died, or left because another one did
  start = 11,      // backend_error: the job did not come together
  withdrawn = 12,  // argument_error: a peer that was told before this one ended its registration
  refused = 13,    // another argument_error
  given_up = 14,   // a put or get that had begun: the peer has ended its registration since
  no_memory = 15,  // std::bad_alloc: of start, of a collective or of a call that waits
  wrong_bytes = 20,
  untyped = 21,      // another exception
  leftovers = 22,    // descriptors, threads
  leak = 23,         // memory that nothing leads to, seen by the address sanitizer
  wrong_count = 24,  // a message came twice
};

// What `action` ends with, said once.
job_end end_of(int rank, const char* phase, const std::function<void()>& action);
// The same, or leftovers where there are any, each of which is said.
job_end with_leftovers(int rank, job_end end, const leak_guard& leaks);

// Thrown by what checks.
struct wrong_bytes {};
struct wrong_count {
  int messages, notices;
};

// Inline, in a packet, after a rendezvous.
inline constexpr std::size_t SIZES[] = {8, 3000, 200'000};
inline constexpr int KINDS = 3;
// The bytes that `from` sends under a number, the same at both sides.
inline char byte_of(std::size_t at, int from, std::uint64_t number) {
  return static_cast<char>((at + static_cast<std::size_t>(from * 31) + number) * 2654435761u >> 13);
}
void fill(char* into, std::size_t size, int from, std::uint64_t number);
// Whether they are those.
bool are_bytes_of(const void* bytes, std::size_t size, int from, std::uint64_t number);
// Throws wrong_bytes if they are not.
void check(const void* bytes, std::size_t size, int from, std::uint64_t number);

// The environment asks that a check fires: `variable` is `what`.
bool is_set_to(const char* variable, std::string_view what);
// The ranks meet in a folder, and wait so long for each other.
void meet_in(const std::string& folder, int rank, int ranks, int seconds);

}  // namespace lci::test
