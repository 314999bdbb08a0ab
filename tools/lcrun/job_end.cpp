// How the ranks of a job are ended.
#include <signal.h>

#include <exception>

#include "lci/base/report.hpp"
#include "tools/lcrun/job.hpp"
#include "tools/lcrun/members.hpp"

namespace lcrun {

void job::end_job() {
  if (ending_) return;
  ending_ = true;
  if (opts_.hosts.empty()) {
    kill_at_ = lci::boot::deadline::in(GRACE);
    end_together();
  } else {
    kill_at_ = lci::boot::deadline::in(AGENTS_GRACE);
    end_ssh_without_agent(SIGTERM);
    tell_agents(ORDER_END);
  }
}

// None runs while others have ended already: it would find its peers lost, and say so.
void job::end_together() noexcept {
  signal_ranks(SIGSTOP);
  signal_ranks(SIGTERM);
  // It would find that too, and wait for the end of GRACE in vain.
  if (ends_with_page_) kill_who_ignore(SIGTERM);
  signal_ranks(SIGCONT);  // a stopped process does not receive SIGTERM
}

// Ranks alone: what else they have started may ignore the signal to tidy up behind them.
void job::kill_who_ignore(int signal) noexcept {
  try {
    const process_groups now;
    for (const rank_process& p : ranks_) {
      if (p.is_over) continue;
      for (const member& each : now.of(p.pid)) {
        if (ignores(each.pid, signal) && handles(each.pid, lci::base::report::QUESTION))
          ::kill(each.pid, SIGKILL);
      }
    }
  } catch (const std::exception&) {
    // Out of memory or of descriptors: they end after GRACE.
  }
}

// It may have stopped to ask something.
void job::end_ssh_without_agent(int signal) noexcept {
  for (const rank_process& p : ranks_) {
    if (p.is_over || p.host.empty() || p.orders.is_read()) continue;
    ::kill(-p.pid, signal);
    ::kill(-p.pid, SIGCONT);
  }
}

void job::tell_agents(unsigned char order) {
  for (rank_process& p : ranks_) {
    if (!p.is_over) p.orders.push(order);
  }
}

void job::signal_ranks(int signal) noexcept {
  for (const rank_process& p : ranks_) {
    if (!p.is_over && p.host.empty()) ::kill(-p.pid, signal);
  }
}

void job::kill_all(int signal) noexcept {
  if (signal == SIGKILL) signal_ranks(SIGSTOP);  // as in end_together()
  for (rank_process& p : ranks_) {
    if (p.is_over) continue;
    if (p.host.empty() || signal == SIGKILL)
      ::kill(-p.pid, signal);
    else
      p.orders.push(static_cast<unsigned char>(signal));
  }
}

}  // namespace lcrun
