// Descriptors that travel with bytes over a socket within one host (SCM_RIGHTS): the receiver gets
// descriptors of its own for the same open files. Threads: the functions have no state. Always
// true: what was received is closed by its owner, also where it was more than expected.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstddef>
#include <span>

#include "lci/base/descriptor.hpp"

namespace lci::base {

// In one message, by what is needed here.
inline constexpr std::size_t MOST_PASSED = 2;

// sendmsg() with these descriptors, at most MOST_PASSED, which stay the caller's. Answers what that
// does: bytes, or -1 and errno. flags: MSG_NOSIGNAL is added.
ssize_t send_with_descriptors(int to, std::span<const std::byte> bytes, std::span<const int> passed,
                              int flags) noexcept;

struct received_descriptors {
  ssize_t bytes = -1;  // as recvmsg(): -1 and errno
  std::array<descriptor, MOST_PASSED> passed;
  bool is_lost = false;  // a descriptor came that there was no room for: here, or in this process
};
// recvmsg() with room for so many descriptors, at most MOST_PASSED. They are closed by exec().
received_descriptors receive_with_descriptors(int from, std::span<std::byte> room, std::size_t most,
                                              int flags) noexcept;

}  // namespace lci::base
