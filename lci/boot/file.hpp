// The bootstrap over a shared directory: anything may start the processes, even a user by hand;
// ranks are given in order of arrival, unless LCT_PMI_FILE_RANK gives the rank.
//
// Variables: LCT_PMI_FILE_NRANKS (else the size of the Slurm job step), LCT_PMI_FILE_DIR (else
// $HOME/.tmp/lct_pmi_file-<SLURM_JOBID or 0>), LCT_PMI_FILE_TIMEOUT_SEC (60).
// Threads: single. Always true: each wait ends, with an error that names the ranks that are missing
// or lost.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lci/boot/bootstrap.hpp"
#include "lci/boot/file_directory.hpp"

namespace lci::boot {

struct file_variables {
  int size = 0;
  int rank = -1;  // -1: in order of arrival
  std::string directory;
  std::string step;  // "-<step>" inside a Slurm job step: the steps of a job do not meet
  std::chrono::milliseconds limit{60'000};
};

// The variables, or nothing and the reason.
std::optional<file_variables> read_file_variables(std::string& why);

class file_bootstrap final : public bootstrap {
 public:
  // Joins; returns when all ranks have. Throws backend_error.
  explicit file_bootstrap(const file_variables& v);
  const char* name() const noexcept override { return "file"; }
  int rank() const noexcept override { return job_.rank(); }
  int size() const noexcept override { return job_.size(); }
  void put(const std::string& key, const std::string& value) override;
  void fence() override { fence_with(nullptr); }
  void fence_with(meanwhile* work) override;
  std::string get(int rank, const std::string& key) override;
  bool has_news() const noexcept override { return size() > 1; }
  std::vector<departure> news() override;
  void leave() noexcept override;

 private:
  // Every rank is checked once in this time, or less often if there are many; a check is three
  // system calls.
  static constexpr std::chrono::milliseconds LOOK_EVERY{500};
  static constexpr int LOOKS = 16;  // at once

  void wait_until_full(const deadline& until);
  std::string wait_for_values(int rank, const deadline& until, meanwhile* work);
  void store(int rank, const std::string& bytes);
  std::string limit_text() const;
  std::string file_of(int rank, unsigned round) const;
  static std::string leave_key_of(int rank);

  const std::chrono::milliseconds limit_;
  file_job job_;
  folder_watch watch_;
  std::string pending_;  // put frames since the last fence
  unsigned round_ = 0;
  std::vector<std::map<std::string, std::string>> values_;  // by rank
  std::chrono::steady_clock::time_point next_look_{};
  int next_rank_ = 0;          // the next to check
  std::vector<bool> is_over_;  // by rank: it has departed, and that was reported
};

}  // namespace lci::boot
