// A small process that outlives the launcher briefly: when the launcher is killed (kill -9), it
// kills the process groups of all ranks and their strays (members.hpp), so that everything that
// ranks have started ends too, and removes the job's directory. The kernel's parent-death signal
// alone reaches only the ranks themselves. Threads: the launcher must be single-threaded when it
// makes one.
#pragma once

#include <sys/types.h>

#include <string>

#include "lci/boot/fd.hpp"

namespace lcrun {

// Of its process, as ps shows it.
inline constexpr const char* WARDEN_NAME = "lcrun-warden";

class warden {
 public:
  // `socket` tells the job's processes; `directory` is removed with what is in it; empty = none.
  warden(const std::string& socket, const std::string& directory);
  ~warden();  // ends the process
  warden(const warden&) = delete;
  warden& operator=(const warden&) = delete;
  // Registers a process group to kill if we die.
  void watch(pid_t group) noexcept;

 private:
  lci::base::descriptor pipe_;
  pid_t pid_ = -1;
};

// Removes a directory with its files and folders.
void remove_tree(const std::string& directory) noexcept;

}  // namespace lcrun
