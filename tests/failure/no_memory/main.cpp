// Lets the n-th allocation of one of two ranks fail, for n = 1, 2, ... until a job is through that
// makes fewer: start, a message of each kind, end. Each rank ends well, by std::bad_alloc or by a
// typed error; none aborts or hangs, nothing is lost, damaged or left behind. The backend is the
// one that LCI_ATTR_BACKEND names. LCI_NO_MEMORY_SPOIL makes the checks fire: bytes, abort, hang,
// leak. Run as
//   no_memory [first (1)] [stride (1)] [last (none)] [jobs at a time (6)]
// A last one before the job's end is a failure: what grows is not to be left out silently.
#include <sys/mman.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <list>
#include <string>
#include <string_view>
#include <thread>

#include "tests/failure/no_memory/job.hpp"
#include "tests/failure/ranks.hpp"

namespace {

using lci::test::job_end;
using lci::test::job_report;

constexpr int RANKS = 2;

// Who waits in vain for the other rank hears in seconds; a machine may be slow.
std::chrono::seconds patience() {
  return std::chrono::seconds(lci::test::is_set_to("LCI_NO_MEMORY_SPOIL", "hang") ? 5 : 300);
}

struct tally {
  int jobs = 0, well = 0, no_memory = 0, typed = 0, bad = 0;
};

class one_job {
 public:
  // fail_at: of the allocations of rank `victim`; 0: none.
  one_job(std::uint64_t fail_at, int victim) : fail_at_(fail_at), victim_(victim) {
    void* const shared =
        mmap(nullptr, sizeof(*reports_), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) std::abort();
    reports_ = new (shared) std::array<job_report, RANKS>;
    for (int rank = 0; rank < RANKS; ++rank)
      ranks_.begin([&] {
        return lci::test::run_job(rank, ranks_.folder(), rank == victim_ ? fail_at_ : 0,
                                  (*reports_)[static_cast<std::size_t>(rank)]);
      });
  }
  ~one_job() {
    for (int rank = 0; rank < RANKS; ++rank) std::filesystem::remove(log_of(rank));
    munmap(reports_, sizeof(*reports_));
  }
  one_job(const one_job&) = delete;
  one_job& operator=(const one_job&) = delete;

  // True: it is over.
  bool look() { return ranks_.look(patience()); }
  void wait() { ranks_.wait(patience()); }
  const job_report& report(int rank) const { return (*reports_)[static_cast<std::size_t>(rank)]; }
  std::uint64_t fail_at() const { return fail_at_; }
  int victim() const { return victim_; }
  // usual: how it is where no allocation fails.
  void count(tally& all, const std::array<job_report, RANKS>& usual) {
    ++all.jobs;
    const int bad_before = all.bad;
    for (int rank = 0; rank < RANKS; ++rank)
      count(rank, all, usual[static_cast<std::size_t>(rank)]);
    if (all.bad == bad_before) return;
    std::printf("... of the job in which allocation %llu of rank %d failed\n",
                static_cast<unsigned long long>(fail_at_), victim_);
    for (int rank = 0; rank < RANKS; ++rank) print_log(rank);
  }

 private:
  void count(int rank, tally& all, const job_report& usual) {
    const job_report& is = report(rank);
    const int status = ranks_.status(rank);
    const auto say_bad = [&](const char* what, long long number) {
      std::printf("rank %d %s %lld\n", rank, what, number);
      ++all.bad;
    };
    if (WIFSIGNALED(status)) return say_bad("ended by signal", WTERMSIG(status));
    const auto end = static_cast<job_end>(WEXITSTATUS(status));
    // Where nothing failed nobody may miss anybody.
    const bool may_miss = report(victim_).has_fired;
    if (end == job_end::well)
      ++all.well;
    else if (end == job_end::no_memory && is.has_fired)
      ++all.no_memory;
    else if (is_typed(end) && may_miss)
      ++all.typed;
    else
      return say_bad("ended with status", WEXITSTATUS(status));
    if (is.live > usual.live) say_bad("has blocks of memory left over:", is.live - usual.live);
    if (end == job_end::well && is.packets > usual.packets)
      say_bad("has packets left over:", static_cast<long long>(is.packets - usual.packets));
    if (end == job_end::well && has_said(rank, "that did not complete"))
      say_bad("has left operations open", 1);
  }
  // An error of lci/errors.hpp: the other rank is lost.
  static bool is_typed(job_end end) {
    return end == job_end::lost || end == job_end::start || end == job_end::withdrawn ||
           end == job_end::refused;
  }
  std::string log_of(int rank) const { return ranks_.folder() + ".log" + std::to_string(rank); }
  bool has_said(int rank, std::string_view what) const {
    std::ifstream log(log_of(rank));
    for (std::string line; std::getline(log, line);)
      if (line.find(what) != std::string::npos) return true;
    return false;
  }
  void print_log(int rank) const {
    std::ifstream log(log_of(rank));
    for (std::string line; std::getline(log, line);) std::printf("  %s\n", line.c_str());
  }

  const std::uint64_t fail_at_;
  const int victim_;
  std::array<job_report, RANKS>* reports_ = nullptr;
  lci::test::ranks ranks_{"no_memory", "LCI_NO_MEMORY_KEEP"};
};

// What a job is where nothing fails; false: it is not well.
bool undisturbed(std::array<job_report, RANKS>& usual) {
  tally all;
  for (auto& one : usual) one.live = one.packets = 1 << 30;
  for (int i = 0; i < 2; ++i) {
    one_job job(0, 0);
    job.wait();
    job.count(all, usual);
    for (int rank = 0; rank < RANKS; ++rank)
      usual[static_cast<std::size_t>(rank)] = job.report(rank);
  }
  return all.bad == 0;
}

}  // namespace

int main(int count, char** arguments) {
  const auto number = [&](int at, long otherwise) {
    return static_cast<std::uint64_t>(count > at ? std::atol(arguments[at]) : otherwise);
  };
  const std::uint64_t first = number(1, 1), stride = number(2, 1), last = number(3, 1'000'000);
  const std::size_t at_a_time = number(4, 6);
  std::array<job_report, RANKS> usual;
  if (!undisturbed(usual)) return 1;
  std::printf("allocations of a job: %llu and %llu; left over: %ld and %ld\n",
              static_cast<unsigned long long>(usual[0].allocations),
              static_cast<unsigned long long>(usual[1].allocations), usual[0].live, usual[1].live);
  tally all;
  std::array<bool, RANKS> is_through{};
  std::array<std::uint64_t, RANKS> next{first, first};
  std::list<one_job> running;
  const auto may_begin = [&](std::size_t rank) { return !is_through[rank] && next[rank] <= last; };
  while (may_begin(0) || may_begin(1) || !running.empty()) {
    for (std::size_t rank = 0; rank < RANKS; ++rank) {
      if (!may_begin(rank) || running.size() >= at_a_time) continue;
      running.emplace_back(next[rank], static_cast<int>(rank));
      next[rank] += stride;
    }
    for (auto job = running.begin(); job != running.end();) {
      if (!job->look()) {
        ++job;
        continue;
      }
      if (!job->report(job->victim()).has_fired)
        is_through[static_cast<std::size_t>(job->victim())] = true;
      job->count(all, usual);
      job = running.erase(job);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  std::printf(
      "%d jobs, up to allocation %llu and %llu: %d ranks ended well, %d by std::bad_alloc, %d by a "
      "typed error, %d bad\n",
      all.jobs, static_cast<unsigned long long>(next[0] - stride),
      static_cast<unsigned long long>(next[1] - stride), all.well, all.no_memory, all.typed,
      all.bad);
  const bool is_cut_off = last < std::max(usual[0].allocations, usual[1].allocations);
  if (is_cut_off)
    std::printf("not all were tried: the last was to be %llu\n",
                static_cast<unsigned long long>(last));
  return all.bad == 0 && !is_cut_off ? 0 : 1;
}
