// What an importer has of an owner: its process, held so that its end is seen and its number is not
// mistaken for another's, and the page that it has published. Fetches descriptors out of it.
// Callers: imports. Threads: immutable after open(); all functions from any.
// Always true: open() gives a link only to the process that the handle means, with a page that says
// so. Nothing waits: the longest is an answer of the owner's server, which has a limit of a second.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <utility>

#include "lci/base/descriptor.hpp"
#include "lci/share/page.hpp"

namespace lci::share {

// The system calls that reach into another process; tests pass failing ones.
struct owner_calls {
  int (*open_process)(int pid) = nullptr;           // a descriptor, or -1 with errno
  int (*fetch)(int process, int number) = nullptr;  // the same
  // A memory file of a process, opened by its place in /proc; the same.
  int (*open_file)(int pid, int number) = nullptr;
};
const owner_calls& system_owner_calls() noexcept;

class owner_link {
 public:
  // Throws buffer_error: owner_gone, other_user, unreachable, forged, no_room.
  static std::shared_ptr<owner_link> open(const handle& h, const owner_calls& calls);

  // Throws buffer_error: no_room, where the system has no descriptors of processes.
  bool is_alive() const;
  verdict compare(const handle& h) const noexcept { return page_.compare(h); }
  // That the owner lives and stands by the handle. Throws buffer_error: owner_gone, stale, forged,
  // and what is_alive() may.
  void check(const handle& h) const;
  // The descriptor behind the memory. Throws buffer_error, also when the handle is withdrawn
  // meanwhile, or the owner has started another program.
  base::descriptor take_memory(const handle& h) const;
  // That the owner still runs the program whose page this is. Throws buffer_error: forged, and what
  // a fetch may.
  void check_program(const handle& h) const;
  const std::string& how() const noexcept { return how_; }

 private:
  explicit owner_link(const owner_calls& calls) : calls_(calls) {}
  base::descriptor fetch(const handle& h, int number, bool is_memory, std::string& how) const;

  const owner_calls& calls_;
  base::descriptor process_;  // empty where the system has no such descriptors
  int pid_ = 0;
  std::uint64_t start_time_ = 0;
  page_view page_;
  std::pair<dev_t, ino_t> page_file_;  // the file that it maps
  std::string how_;                    // for people: how descriptors are fetched
};

}  // namespace lci::share
