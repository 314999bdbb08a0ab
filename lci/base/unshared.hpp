// Descriptors whose end others take for that of this process: sockets that peers watch, locks on
// files. A process that is forked from this one has them as well and would keep them open after it,
// so the child gives them up before fork() returns: each of them is /dev/null there, and keeps its
// number, which code of the child may still close.
//
// Callers: whoever owns such a descriptor, beside it. Threads: any; a mark is one owner's. Always
// true: what is marked is open and the owner's, since it is marked after it was opened and unmarked
// before it is closed; so a fork at any moment of another thread touches nothing of anybody else's.
// Marks are bits of a table that stays where it is: the child locks nothing and allocates nothing.
// Numbers beyond the table are not marked.
#pragma once

#include <utility>

namespace lci::base {

class unshared {
 public:
  static constexpr int MOST = 65536;  // descriptors with a lower number can be marked

  unshared() = default;
  explicit unshared(int fd) noexcept { reset(fd); }
  unshared(unshared&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  unshared& operator=(unshared&& other) noexcept {
    if (this != &other) {
      reset();
      fd_ = std::exchange(other.fd_, -1);
    }
    return *this;
  }
  ~unshared() { reset(); }
  // Of another descriptor, or of none. Before the one that was marked is closed.
  void reset(int fd = -1) noexcept;

 private:
  int fd_ = -1;
};

}  // namespace lci::base
