// Kills ranks at moments that chance chooses, from the start of their job to its end, and looks at
// what becomes of the others: each ends well or by a typed error, none aborts or hangs, nothing is
// left behind. A kill that comes too late, for a rank that has ended, does not count, and another
// one is tried. The backend is the one that LCI_ATTR_BACKEND names. LCI_KILLS_SPOIL makes the
// checks fire: bytes, lost, abort, hang, descriptor, leak, late. Run as
//   kills [kills (8)] [seed (LCI_TEST_SEED, or by the clock, and printed)]
#include <sys/wait.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "tests/failure/kills/job.hpp"
#include "tests/failure/ranks.hpp"
#include "tests/support/process_harness.hpp"

namespace {

using lci::test::job_end;
using clock_type = std::chrono::steady_clock;
using std::chrono::microseconds;

constexpr int RANKS = 3;

bool spoils(std::string_view what) { return lci::test::is_set_to("LCI_KILLS_SPOIL", what); }

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
  int well = 0, lost = 0, start = 0, killed = 0, hung = 0, bad = 0;
};

constexpr int NOBODY = -1;

class one_job {
 public:
  explicit one_job(bool is_undisturbed) : is_undisturbed_(is_undisturbed) {
    for (int rank = 0; rank < RANKS; ++rank)
      ranks_.begin(
          [&] { return lci::test::run_job(rank, RANKS, ranks_.folder(), is_undisturbed); });
  }

  void kill_at(microseconds moment, int victim) {
    std::this_thread::sleep_until(ranks_.begun() + moment);
    victim_ = victim;
    ranks_.kill(victim, spoils("late"));
  }
  // How long it took.
  microseconds finish(tally& all) {
    ranks_.wait(patience());
    all.hung += ranks_.hung();
    if (ranks_.hung() != 0) return {};
    for (int rank = 0; rank < RANKS; ++rank) count(rank, all);
    return std::chrono::duration_cast<microseconds>(ranks_.age());
  }

 private:
  void count(int rank, tally& all) const {
    const int status = ranks_.status(rank);
    const bool is_lost = victim_ != NOBODY && ranks_.was_killed(victim_);
    if (WIFSIGNALED(status)) {
      if (is_lost && rank == victim_) {
        ++all.killed;
        return;
      }
      std::printf("rank %d ended by signal %d\n", rank, WTERMSIG(status));
      ++all.bad;
      return;
    }
    switch (static_cast<job_end>(WEXITSTATUS(status))) {
      case job_end::well:
        ++all.well;
        return;
      case job_end::lost:
      case job_end::withdrawn:
      case job_end::given_up:
        ++all.lost;
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
    std::printf("rank %d ended with status %d\n", rank, WEXITSTATUS(status));
    ++all.bad;
  }

  const bool is_undisturbed_;
  lci::test::ranks ranks_{"kills", "LCI_KILLS_KEEP"};
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
      kills, all.killed, tries, all.lost, all.start, all.well, all.hung + undisturbed.hung,
      all.bad + undisturbed.bad, left);
  const bool is_well = undisturbed.well == 2 * RANKS && all.killed == kills && all.hung == 0 &&
                       all.bad == 0 && left == 0;
  return is_well ? 0 : 1;
}
