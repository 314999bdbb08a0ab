// The page of what the ranks wait for, requested by SIGUSR1 or made because the time is over.
#include <signal.h>

#include <algorithm>
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
  if (!opts_.hosts.empty()) {
    ++pages_asked_;
    return tell_agents(ORDER_PAGE);
  }
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
  if (!opts_.hosts.empty()) return tell_agents(static_cast<unsigned char>(signal));
  const process_groups now;
  for (const rank_process& p : ranks_) {
    if (p.is_over) continue;
    for (const member& each : now.of(p.pid)) {
      if (handles(each.pid, signal)) ::kill(each.pid, signal);
    }
  }
}

void job::look_for_answers() {
  if (!inquiry_.look()) return;
  std::istringstream page(write_page(inquiry_.take(), opts_.nprocs, page_title_));
  for (std::string line; std::getline(page, line);) say(line);
  if (orders_ != nullptr) {
    for (; pages_asked_ > 0; --pages_asked_) err_sink().push(orders_->page_mark + "\n");
  }
  if (ends_with_page_) end_job();
}

// Of a host.
bool job::is_page_awaited(const rank_process& p) const noexcept {
  return !p.is_over && p.pages_told() < pages_asked_;
}

// Not before: one host's page would show what the end of another has done.
void job::end_when_all_have_told() {
  if (page_end_.remaining_ms() < 0 ||
      std::any_of(ranks_.begin(), ranks_.end(),
                  [this](const rank_process& p) { return is_page_awaited(p); }))
    return;
  page_end_ = lci::boot::deadline::never();
  end_job();
}

void job::stop_waiting_for_pages() {
  page_end_ = lci::boot::deadline::never();
  for (const rank_process& p : ranks_) {
    if (is_page_awaited(p)) say("host " + p.host + " does not say who waits for what");
  }
  end_job();
}

// The time is over: the page comes first, since it is about the present state.
void job::run_out_of_time() {
  timeout_ = lci::boot::deadline::never();
  if (ending_) return;  // by a rank that failed, whose status counts
  say(time_text());
  status_ = 124;
  ends_with_page_ = true;
  ask_who_waits(time_text());
  if (!opts_.hosts.empty())
    page_end_ = lci::boot::deadline::in(2 * inquiry::LIMIT);
  else if (!inquiry_.is_under_way())
    end_job();
}

}  // namespace lcrun
