// The page of what the ranks wait for, requested by SIGUSR1 or made because the time is over.
#include <signal.h>

#include <cstdio>
#include <cstring>
#include <sstream>

#include "tools/lcrun/job.hpp"
#include "tools/lcrun/members.hpp"

namespace lcrun {

namespace {

std::string describe_end(bool by_signal, int number) {
  if (by_signal)
    return "has died of signal " + std::to_string(number) + " (" + ::strsignal(number) + ")";
  return "has ended with status " + std::to_string(number);
}

}  // namespace

std::string job::time_text() const {
  char seconds[48];
  std::snprintf(seconds, sizeof seconds, "timeout after %g s", opts_.timeout_s);
  return seconds;
}

void job::ask_who_waits(const std::string& why) {
  if (ending_ || inquiry_.is_under_way()) return;
  page_title_ = why;
  // Agents ask the ranks of their hosts, and print a page each.
  if (!opts_.hosts.empty()) return kill_all(SIGUSR1);
  std::vector<inquiry::subject> ranks;
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    const rank_process& p = ranks_[i];
    ranks.push_back({opts_.first + static_cast<int>(i), p.pid,
                     p.is_over ? describe_end(p.by_signal, p.end_number) : std::string()});
  }
  inquiry_.begin(ranks);
}

// Programs that handle the signal still get it: some save their state then.
void job::pass_to_who_handles(int signal) {
  const process_groups now;
  for (const rank_process& p : ranks_) {
    if (p.is_over || !p.host.empty()) continue;
    for (const member& each : now.of(p.pid)) {
      if (handles(each.pid, signal)) ::kill(each.pid, signal);
    }
  }
}

void job::look_for_answers() {
  if (!inquiry_.look()) return;
  std::istringstream page(write_page(inquiry_.take(), opts_.nprocs, page_title_));
  for (std::string line; std::getline(page, line);) say(line);
  if (ends_with_page_) end_job();
}

// The time is over: the page comes first, since it is about the present state.
void job::run_out_of_time() {
  timeout_ = lci::boot::deadline::never();
  say(time_text());
  status_ = 124;
  ends_with_page_ = true;
  ask_who_waits(time_text());
  // Agents on other hosts do not report when their pages are done.
  if (!opts_.hosts.empty())
    page_end_ = lci::boot::deadline::in(2 * inquiry::LIMIT);
  else if (!inquiry_.is_under_way())
    end_job();
}

}  // namespace lcrun
