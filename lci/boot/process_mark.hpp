// Which process made an object, so that a process forked from it does not end the object in its
// name.
// Threads: any; immutable.
#pragma once

#include <sys/types.h>
#include <unistd.h>

namespace lci::boot {

class process_mark {
 public:
  process_mark() noexcept : owner_(::getpid()) {}
  bool is_ours() const noexcept { return owner_ == ::getpid(); }

 private:
  const pid_t owner_;
};

}  // namespace lci::boot
