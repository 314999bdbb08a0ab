// The directory in which the processes of a file bootstrap meet: one folder per job, and a pointer
// to the one that is still open for joining.
//
//   <dir>/lock             held (flock) while a process joins, leaves or cleans up
//   <dir>/open-<n>[-<step>]   name of the job folder that processes of an n-rank job join next
//   <dir>/job-<id>/m<rank> held (flock) by its process for life: a process that can take it knows
//                          that its owner has ended, whatever ended it
//   <dir>/job-<id>/full    exists once all have joined
//   <dir>/job-<id>/left<rank> exists once that rank has announced that it leaves
//   <dir>/job-<id>/r<rank>.<round>   what a rank put for a fence; appears whole (rename)
//
// Callers: the file bootstrap. Threads: single.
// Always true: no process waits for anything that a dead process left behind; folders without a
// living member are removed by the next process that comes; the last member that leaves removes its
// own. Only folders and files of these names and of this user are removed or used, and no other
// user can write in the directory.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lci/base/unshared.hpp"
#include "lci/boot/fd.hpp"

namespace lci::boot {

class file_job {
 public:
  // Joins the open job of `directory`, or opens one. `wanted_rank` < 0: in order of arrival.
  // Throws backend_error.
  static file_job join(const std::string& directory, int size, int wanted_rank,
                       const std::string& step, const deadline& until);
  file_job(file_job&&) = default;
  file_job& operator=(file_job&&) = delete;
  ~file_job();

  int rank() const noexcept { return rank_; }
  int size() const noexcept { return size_; }
  const std::string& folder() const noexcept { return folder_; }

  bool is_full() const;              // all ranks have joined
  std::vector<int> missing() const;  // ranks that have not joined
  // True when the process of `rank`, which has joined, has ended.
  bool has_ended(int rank) const;

  // A file of the job folder, written or read as a whole; nothing if it does not exist.
  void write(const std::string& file, const std::string& bytes) const;
  std::optional<std::string> read(const std::string& file) const;
  bool has(const std::string& file) const;
  void remove(const std::string& file) const noexcept;

 private:
  file_job(std::string directory, std::string folder, int rank, int size, base::descriptor mine);

  std::string directory_, folder_;
  int rank_, size_;
  base::descriptor mine_;   // holds the lock on m<rank>
  base::unshared is_ours_;  // mine_: held by this rank's process, not by its children
};

// Wakes when something changes in a folder, or after a short while: not every file system reports
// changes made by another host.
class folder_watch {
 public:
  explicit folder_watch(const std::string& folder);
  bool wait(const deadline& until);  // false: no change was reported

 private:
  base::descriptor inotify_;  // empty when the system has no more of them
  int pause_ms_ = 1;
};

}  // namespace lci::boot
