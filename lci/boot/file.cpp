#include "lci/boot/file.hpp"

#include <algorithm>
#include <new>
#include <utility>

#include "lci/base/env.hpp"
#include "lci/boot/board.hpp"
#include "lci/boot/kv_wire.hpp"
#include "lci/boot/meanwhile.hpp"
#include "lci/boot/wait_limit.hpp"
#include "lci/errors.hpp"

namespace lci::boot {

namespace {

namespace env = base::env;

// Number of ranks, or 0 if no variable gives it. lci's own variable precedes the batch system's.
int read_size() {
  if (const auto n = env::find("LCT_PMI_FILE_NRANKS"))
    return env::parse_int("LCT_PMI_FILE_NRANKS", *n, 1, MAX_RANKS);
  // SLURM_NTASKS is also set in a shell inside an allocation, where a program started without srun
  // is alone and would wait for ever. Only a job step has a step id.
  const auto step = env::find("SLURM_STEP_ID");
  if (!step) return 0;
  if (const auto n = env::find("SLURM_STEP_NUM_TASKS"))
    return env::parse_int("SLURM_STEP_NUM_TASKS", *n, 1, MAX_RANKS);
  if (const auto n = env::find("SLURM_NTASKS"))
    return env::parse_int("SLURM_NTASKS", *n, 1, MAX_RANKS);
  return 0;
}

std::string read_directory() {
  if (const auto given = env::find("LCT_PMI_FILE_DIR")) return std::string(*given);
  const auto home = env::find("HOME");
  if (!home) throw argument_error("neither LCT_PMI_FILE_DIR nor HOME is set");
  return std::string(*home) + "/.tmp/lct_pmi_file-" +
         std::string(env::find("SLURM_JOBID").value_or("0"));
}

}  // namespace

std::optional<file_variables> read_file_variables(std::string& why) {
  file_variables out;
  try {
    out.size = read_size();
    if (out.size == 0) {
      why = "LCT_PMI_FILE_NRANKS is not set, and this is not a Slurm job step";
      return std::nullopt;
    }
    if (out.size == 1) {
      why = "the number of ranks is 1";
      return std::nullopt;
    }
    if (const auto rank = env::find("LCT_PMI_FILE_RANK"))
      out.rank = env::parse_int("LCT_PMI_FILE_RANK", *rank, 0, out.size - 1);
    out.limit = read_wait_limit("LCT_PMI_FILE_TIMEOUT_SEC");
    if (const auto step = env::find("SLURM_STEP_ID")) out.step = "-" + std::string(*step);
    out.directory = read_directory();
  } catch (const argument_error& error) {
    why = error.what();
    return std::nullopt;
  }
  return out;
}

file_bootstrap::file_bootstrap(const file_variables& v)
    : limit_(v.limit),
      job_(file_job::join(v.directory, v.size, v.rank, v.step, deadline::in(v.limit))),
      watch_(job_.folder()),
      values_(static_cast<std::size_t>(v.size)),
      is_over_(static_cast<std::size_t>(v.size)) {
  wait_until_full(deadline::in(limit_));
}

void file_bootstrap::put(const std::string& key, const std::string& value) {
  check_put(name(), key, value);
  kv::encode_put(pending_, key, value);
}

void file_bootstrap::fence_with(meanwhile* work) {
  const deadline until = deadline::in(limit_);
  // The file itself announces the arrival: it is written even when there was nothing to put.
  job_.write(file_of(rank(), round_), pending_);
  for (int r = 0; r < size(); ++r) store(r, wait_for_values(r, until, work));
  // All ranks have arrived at this fence, so all have read the files of the last one.
  const unsigned last = round_++;
  pending_.clear();
  if (last > 0) job_.remove(file_of(rank(), last - 1));
}

std::string file_bootstrap::get(int rank, const std::string& key) {
  check_rank(name(), rank, size());
  const auto& values = values_[static_cast<std::size_t>(rank)];
  const auto found = values.find(key);
  if (found == values.end()) throw_missing_key(name(), rank, key);
  return found->second;
}

std::vector<departure> file_bootstrap::news() {
  std::vector<departure> out;
  const auto now = std::chrono::steady_clock::now();
  if (now < next_look_) return out;
  const int looks = std::min(size(), LOOKS);
  next_look_ = now + LOOK_EVERY * looks / size();
  for (int i = 0; i < looks; ++i) {
    const int r = next_rank_;
    next_rank_ = (r + 1) % size();
    if (is_over_[static_cast<std::size_t>(r)]) continue;
    try {
      if (!job_.has_ended(r)) continue;
      // A rank announces that it leaves before it does.
      out.push_back(job_.has(leave_key_of(r)) ? departure{r, LEFT_TEXT, true}
                                              : departure{r, "rank " + std::to_string(r) +
                                                                 " ended without leaving the job"});
    } catch (const std::bad_alloc&) {
      break;  // it is checked again later
    }
    is_over_[static_cast<std::size_t>(r)] = true;
  }
  return out;
}

void file_bootstrap::leave() noexcept {
  try {
    job_.write(leave_key_of(rank()), {});
  } catch (const std::exception&) {
    // Then the others take our end for a failure.
  }
}

void file_bootstrap::wait_until_full(const deadline& until) {
  while (!job_.is_full()) {
    if (until.is_over()) {
      std::string ranks;
      for (const int r : job_.missing()) ranks += " " + std::to_string(r);
      throw backend_error("file: rank " + std::to_string(rank()) + " waited " + limit_text() +
                          " for " + std::to_string(size()) + " processes to join in " +
                          job_.folder() + "; missing ranks:" + ranks);
    }
    // Failed ranks are looked for only when nothing else happens: each check costs a few calls per
    // rank.
    if (watch_.wait(until)) continue;
    for (int r = 0; r < size(); ++r) {
      if (job_.has_ended(r) && !job_.is_full()) {
        throw backend_error("file: rank " + std::to_string(r) +
                            " died before all processes had joined in " + job_.folder());
      }
    }
  }
}

std::string file_bootstrap::wait_for_values(int r, const deadline& until, meanwhile* work) {
  const std::string file = file_of(r, round_);
  for (;;) {
    if (auto bytes = job_.read(file)) return std::move(*bytes);
    if (until.is_over()) {
      throw backend_error("file: rank " + std::to_string(rank()) + " waited " + limit_text() +
                          " for rank " + std::to_string(r) + " in fence " + std::to_string(round_) +
                          " (" + job_.folder() + ")");
    }
    if (watch_.wait(after_round(work, until)) || !job_.has_ended(r)) continue;
    // It may have arrived and left between the two looks.
    if (auto bytes = job_.read(file)) return std::move(*bytes);
    throw backend_error("file: rank " + std::to_string(r) + " left the job before fence " +
                        std::to_string(round_) + " was complete (" + job_.folder() + ")");
  }
}

void file_bootstrap::store(int r, const std::string& bytes) {
  const std::size_t parsed = take_sheet(bytes, values_[static_cast<std::size_t>(r)]);
  if (parsed != bytes.size()) {
    throw backend_error("file: " + job_.folder() + "/" + file_of(r, round_) +
                        " does not parse after byte " + std::to_string(parsed));
  }
}

std::string file_bootstrap::limit_text() const {
  return std::to_string(limit_.count() / 1000) + " s";
}

std::string file_bootstrap::leave_key_of(int r) { return "left" + std::to_string(r); }

std::string file_bootstrap::file_of(int r, unsigned round) const {
  return "r" + std::to_string(r) + "." + std::to_string(round);
}

}  // namespace lci::boot
