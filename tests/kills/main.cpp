// Kills ranks at moments that chance chooses, from the start of their job to its end, and looks at
// what becomes of the others: each ends well or by a typed error, none aborts or hangs, nothing is
// left behind. A kill that comes too late, for a rank that has ended, does not count, and another
// one is tried. The backend is the one that LCI_ATTR_BACKEND names. LCI_KILLS_SPOIL makes the
// checks fire: bytes, lost, abort, hang, descriptor, leak, late. Run as
//   kills [kills (8)] [seed (LCI_TEST_SEED, or by the clock, and printed)]
#include <dirent.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "tests/kills/job.hpp"
#include "tests/support/memory_leaks.hpp"
#include "tests/support/process_harness.hpp"

namespace {

using lci::test::job_end;
using clock_type = std::chrono::steady_clock;
using std::chrono::microseconds;

constexpr int RANKS = 3;

bool spoils(std::string_view what) {
  const char* const given = std::getenv("LCI_KILLS_SPOIL");
  return given != nullptr && what == given;
}

// A survivor hears in seconds, as far as a network is concerned; a machine may be slow.
std::chrono::seconds patience() {
  return std::chrono::seconds(spoils("hang") || spoils("lost") ? 4 : 120);
}

// Jobs for so many kills. Each moment but the last tenth lies within a job of average length.
long most_tries(long kills) { return 4 * kills + 20; }

unsigned seed_of(int count, char** arguments) {
  const char* const given = count > 2 ? arguments[2] : std::getenv("LCI_TEST_SEED");
  return given != nullptr ? static_cast<unsigned>(std::strtoul(given, nullptr, 10))
                          : static_cast<unsigned>(clock_type::now().time_since_epoch().count());
}

struct tally {
  int well = 0, gone = 0, start = 0, killed = 0, hung = 0, bad = 0;
};

constexpr int NOBODY = -1;

pid_t begin_rank(int rank, const std::string& folder, bool is_undisturbed) {
  std::fflush(stdout);
  const pid_t child = fork();
  if (child != 0) return child;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const job_end end = lci::test::run_job(rank, RANKS, folder, is_undisturbed);
  std::fflush(stdout);
  // As at the end of a process, which these do not come to.
  _exit(static_cast<int>(lci::test::has_leaked_memory() ? job_end::leak : end));
}

class one_job {
 public:
  explicit one_job(bool is_undisturbed) : is_undisturbed_(is_undisturbed) {
    if (mkdtemp(folder_) == nullptr) std::abort();
    for (int rank = 0; rank < RANKS; ++rank)
      pids_.push_back(begin_rank(rank, folder_, is_undisturbed));
  }
  ~one_job() { std::filesystem::remove_all(folder_); }
  one_job(const one_job&) = delete;
  one_job& operator=(const one_job&) = delete;

  void kill_at(microseconds moment, int victim) {
    std::this_thread::sleep_until(begin_ + moment);
    if (spoils("late"))
      waitid(P_PID, static_cast<id_t>(pids_[static_cast<std::size_t>(victim)]), nullptr,
             WEXITED | WNOWAIT);
    victim_ = victim;
    kill(pids_[static_cast<std::size_t>(victim)], SIGKILL);  // a zombie at most: it is not reaped
  }
  // How long it took.
  microseconds finish(tally& all) {
    const auto limit = clock_type::now() + patience();
    std::vector<int> status(RANKS);
    for (int left = RANKS; left > 0;) {
      bool is_any = false;
      for (int rank = 0; rank < RANKS; ++rank) {
        pid_t& pid = pids_[static_cast<std::size_t>(rank)];
        if (pid == 0 || waitpid(pid, &status[static_cast<std::size_t>(rank)], WNOHANG) != pid)
          continue;
        pid = 0;
        --left;
        is_any = true;
      }
      if (!is_any) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      if (left == 0 || clock_type::now() <= limit) continue;
      give_up(all);
      return {};
    }
    for (int rank = 0; rank < RANKS; ++rank) count(rank, status, all);
    return std::chrono::duration_cast<microseconds>(clock_type::now() - begin_);
  }

 private:
  void give_up(tally& all) {
    for (int rank = 0; rank < RANKS; ++rank) {
      pid_t& pid = pids_[static_cast<std::size_t>(rank)];
      if (pid == 0) continue;
      std::printf("rank %d hangs\n", rank);
      if (std::getenv("LCI_KILLS_KEEP") != nullptr) pause();
      kill(pid, SIGKILL);
      waitpid(pid, nullptr, 0);
      pid = 0;
      ++all.hung;
    }
  }

  static bool is_killed(int status) { return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL; }

  // status: of each rank, all of which have ended.
  void count(int rank, const std::vector<int>& status, tally& all) const {
    const int mine = status[static_cast<std::size_t>(rank)];
    const bool is_lost = victim_ != NOBODY && is_killed(status[static_cast<std::size_t>(victim_)]);
    if (WIFSIGNALED(mine)) {
      if (is_lost && rank == victim_) {
        ++all.killed;
        return;
      }
      std::printf("rank %d ended by signal %d\n", rank, WTERMSIG(mine));
      ++all.bad;
      return;
    }
    switch (static_cast<job_end>(WEXITSTATUS(mine))) {
      case job_end::well:
        ++all.well;
        return;
      case job_end::gone:
      case job_end::withdrawn:
        ++all.gone;
        if (is_lost) return;
        break;
      case job_end::start:
        ++all.start;
        // Where somebody may be killed nobody is waited for longer than a slow machine may need.
        if (!is_undisturbed_) return;
        break;
      default:
        break;
    }
    std::printf("rank %d ended with status %d\n", rank, WEXITSTATUS(mine));
    ++all.bad;
  }

  const bool is_undisturbed_;
  char folder_[32] = "/tmp/lci_kills.XXXXXX";
  const clock_type::time_point begin_ = clock_type::now();
  std::vector<pid_t> pids_;  // by rank; 0 once reaped
  int victim_ = NOBODY;
};

// Entries of /dev/shm that were not there before; others on this machine may make some as well.
std::size_t new_files(const std::vector<std::string>& before) {
  std::size_t more = 0;
  for (const std::string& name : lci::test::shared_memory_files()) {
    if (std::find(before.begin(), before.end(), name) != before.end() ||
        name.find("lci") == std::string::npos)
      continue;
    std::printf("left behind: /dev/shm/%s\n", name.c_str());
    ++more;
  }
  return more;
}

}  // namespace

int main(int count, char** arguments) {
  const long kills = count > 1 ? std::atol(arguments[1]) : 8;
  const unsigned seed = seed_of(count, arguments);
  std::mt19937 chance(seed);
  const auto files = lci::test::shared_memory_files();
  tally undisturbed, all;
  microseconds length{0};
  for (int i = 0; i < 2; ++i) length = one_job(true).finish(undisturbed);
  std::printf("a job takes %lld us; seed %u\n", static_cast<long long>(length.count()), seed);
  long tries = 0;
  for (; all.killed < kills && tries < most_tries(kills) && undisturbed.well == 2 * RANKS;
       ++tries) {
    const auto moment =
        microseconds(std::uniform_int_distribution<long long>(0, length.count() * 11 / 10)(chance));
    const int victim = static_cast<int>(chance() % RANKS);
    std::printf("try %ld: rank %d after %lld us\n", tries, victim,
                static_cast<long long>(moment.count()));
    one_job job(false);
    job.kill_at(moment, victim);
    job.finish(all);
  }
  const std::size_t left = new_files(files);
  std::printf(
      "%ld kills: %d killed in %ld jobs, %d heard of a loss, %d did not start, %d ended well, %d "
      "hung, %d bad, %zu left behind\n",
      kills, all.killed, tries, all.gone, all.start, all.well, all.hung + undisturbed.hung,
      all.bad + undisturbed.bad, left);
  const bool is_well = undisturbed.well == 2 * RANKS && all.killed == kills && all.hung == 0 &&
                       all.bad == 0 && left == 0;
  return is_well ? 0 : 1;
}
