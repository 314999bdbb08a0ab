// The input of rank 0; the other ranks read nothing.
// Threads: single, from the launcher's poll loop.
// Always true: lcrun reads a terminal and passes the input on, because rank 0 is not in the
// foreground group and would be stopped; any other input rank 0 gets as it is.
#pragma once

#include <poll.h>

#include <string>
#include <vector>

#include "lci/boot/fd.hpp"

namespace lcrun {

class input {
 public:
  input();
  // The descriptor that becomes the stdin of `rank`.
  int descriptor_for(int rank) const noexcept;
  int nothing() const noexcept { return nothing_.get(); }
  // Rank 0 has been started and has its own copy of the descriptor.
  void started() noexcept { rank0_end_.reset(); }
  void add_to(std::vector<pollfd>& set) const;
  // No event tells when we are in the foreground again: look once more after so long.
  static constexpr int LOOK_AGAIN_MS = 500;
  bool waits_for_foreground() const noexcept;
  void handle(const std::vector<pollfd>& set);

 private:
  void read_terminal();
  void write_pipe();

  lci::base::descriptor nothing_;    // /dev/null
  lci::base::descriptor rank0_end_;  // of the pipe, when stdin is a terminal
  lci::base::descriptor our_end_;
  std::string pending_;  // read from the terminal, not yet passed to rank 0
};

}  // namespace lcrun
