// Descriptors whose closing tells others that this process has ended: sockets that peers watch,
// locks on files. A process forked from this one inherits them and would keep them open after the
// parent, so the child gives them up before fork() returns: there each becomes /dev/null and keeps
// its number, which code of the child may still close.
//
// Callers: the owner of such a descriptor, which keeps the mark beside it. Threads: any; a mark has
// one owner. Always true: a marked descriptor is open and belongs to the mark's owner, since it
// is marked after it was opened and unmarked before it is closed; so a fork by another thread, at
// any moment, touches no descriptor of anyone else. Marks are bits of a table that never moves: the
// child takes no lock and allocates nothing. Numbers beyond the table are not marked.
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
  // Moves the mark to another descriptor, or to none. Call it before the marked one is closed.
  void reset(int fd = -1) noexcept;

 private:
  int fd_ = -1;
};

}  // namespace lci::base
