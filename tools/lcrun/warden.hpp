// A small process that outlives the launcher by a moment: when the launcher dies without a word
// (kill -9), it kills the process groups of all ranks, so that what ranks have started goes too,
// and removes the job's directory. The kernel's parent-death signal alone reaches the ranks only.
// Threads: the launcher must be single-threaded when it is made.
#pragma once

#include <sys/types.h>

#include <string>

#include "lci/boot/fd.hpp"

namespace lcrun {

class warden {
 public:
  // `directory` is removed with what is in it; empty = none.
  explicit warden(const std::string& directory);
  ~warden();  // dismisses it
  warden(const warden&) = delete;
  warden& operator=(const warden&) = delete;
  // A process group to kill if we die.
  void watch(pid_t group) noexcept;

 private:
  lci::boot::unique_fd pipe_;
  pid_t pid_ = -1;
};

// Removes a directory with the files in it and in its folders.
void remove_tree(const std::string& directory) noexcept;

}  // namespace lcrun
