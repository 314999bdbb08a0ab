#include "tools/lcrun/job.hpp"

#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "lci/errors.hpp"

namespace lcrun {

namespace {

// 128 random bits: no one can guess it, and no two jobs ever share it.
std::string random_socket_name(std::string name) {
  unsigned char bits[16];
  if (::getrandom(bits, sizeof bits, 0) != static_cast<ssize_t>(sizeof bits))
    throw lci::backend_error("getrandom failed: " + lci::boot::errno_text(errno));
  char hex[3];
  for (const unsigned char byte : bits) {
    std::snprintf(hex, sizeof hex, "%02x", byte);
    name += hex;
  }
  return name;
}

bool same_file(int a, int b) noexcept {
  struct stat of_a {
  }, of_b{};
  return ::fstat(a, &of_a) == 0 && ::fstat(b, &of_b) == 0 && of_a.st_dev == of_b.st_dev &&
         of_a.st_ino == of_b.st_ino;
}

}  // namespace

job::job(const options& opts, const inherited_state& was, lci::base::descriptor signals,
         std::string directory, const mission* orders)
    : opts_(opts),
      was_(was),
      signals_(std::move(signals)),
      directory_(std::move(directory)),
      orders_(orders),
      under_orders_(orders != nullptr),
      socket_(random_socket_name("lci-lcrun-")),
      report_socket_(random_socket_name("lci-report-")),
      warden_(socket_, directory_),
      service_(lci::boot::listen_abstract(socket_), opts.nprocs, ::geteuid(), true),
      inquiry_(report_socket_),
      shared_sink_(same_file(STDOUT_FILENO, STDERR_FILENO)) {}

job::~job() {
  kill_all(SIGKILL);  // only if an exception was thrown earlier
  if (!directory_.empty()) remove_tree(directory_);
}

int job::run() {
  if (opts_.timeout_s > 0) {
    timeout_ = lci::boot::deadline::in(
        std::chrono::milliseconds(static_cast<long long>(opts_.timeout_s * 1000) + 1));
  }
  if (start_all()) loop();
  finish();
  return status_;
}

void job::loop() {
  while (alive_ > 0) {
    build_set();
    const int n = ::poll(set_.data(), set_.size(), wait_ms());
    if (n < 0 && errno != EINTR)
      throw lci::backend_error("poll failed: " + lci::boot::errno_text(errno));
    check_clock();
    look_for_answers();
    if (n <= 0) continue;
    // Members' data first: a rank that has arrived at a fence must not look as if it had died in
    // it. Signals last: output that was written before a death is printed before it is reported.
    service_.handle(set_);
    if (orders_ == nullptr) input_.handle(set_);
    for (rank_process& p : ranks_) p.orders.write_some();
    const pollfd* entry = set_.data() + 1;  // as build_set() put them
    for (sink* s : {&out_, &err_}) {
      if (entry->fd != s->fd()) continue;
      if ((entry++)->revents != 0) write_some_of(*s);
    }
    for (rank_process& p : ranks_) {
      for (line_stream* stream : {p.out.get(), p.err.get()}) {
        if (entry->fd != stream->fd()) continue;
        if ((entry++)->revents != 0) stream->read_some();
      }
    }
    if (set_[0].revents != 0) take_signals();
    take_orders();
    schedule_news();
    end_when_all_have_told();
  }
}

void job::schedule_news() {
  const bool now = service_.core().has_news();
  if (now == has_news_) return;
  has_news_ = now;
  news_at_ = now ? lci::boot::deadline::in(NEWS_DELAY) : lci::boot::deadline::never();
}

// loop() relies on this order: signals, sinks with data, streams; then everything else, and at
// least the server's listener.
void job::build_set() {
  set_.clear();
  set_.push_back(pollfd{signals_.get(), POLLIN, 0});
  for (const sink* s : {&out_, &err_}) {
    if (s->has_data()) set_.push_back(pollfd{s->fd(), POLLOUT, 0});
  }
  for (const rank_process& p : ranks_) {
    for (const line_stream* stream : {p.out.get(), p.err.get()}) {
      if (stream->may_read()) set_.push_back(pollfd{stream->fd(), POLLIN, 0});
    }
  }
  service_.add_to(set_);
  if (orders_ == nullptr) input_.add_to(set_);
  for (const rank_process& p : ranks_) {
    if (p.orders.has_data()) set_.push_back(pollfd{p.orders.fd(), POLLOUT, 0});
  }
  if (inquiry_.is_under_way()) set_.push_back(pollfd{inquiry_.fd(), POLLIN, 0});
  if (under_orders_) set_.push_back(pollfd{STDIN_FILENO, POLLIN, 0});
}

int job::wait_ms() const {
  int wait = -1;
  for (const lci::boot::deadline* d :
       {&kill_at_, &report_at_, &news_at_, &timeout_, &page_end_, &inquiry_.next()}) {
    const int left = d->remaining_ms();
    if (left >= 0 && (wait < 0 || left < wait)) wait = left;
  }
  if (orders_ == nullptr && input_.waits_for_foreground() &&
      (wait < 0 || wait > input::LOOK_AGAIN_MS))
    wait = input::LOOK_AGAIN_MS;
  return wait;
}

void job::take_signals() {
  signalfd_siginfo info{};
  while (::read(signals_.get(), &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
    const int signal = static_cast<int>(info.ssi_signo);
    if (signal != SIGCHLD) obey(signal);
  }
  take_endings();
}

void job::obey(int signal) {
  if (signal == SIGUSR1) {
    ask_who_waits("on request");
    pass_to_who_handles(signal);
    return;
  }
  if (signal == SIGUSR2) {
    kill_all(signal);
    return;
  }
  forwarded_ = signal;
  ++end_requests_;
  if (end_requests_ == 1) {
    end_ssh_without_agent(signal);
    kill_all(signal);
  } else if (end_requests_ == 2) {
    end_job();
  } else {
    kill_all(SIGKILL);
  }
}

// From the lcrun whose agent this is; the end of the stream is the end of the job.
void job::take_orders() {
  if (!under_orders_ || set_.empty() || set_.back().fd != STDIN_FILENO || set_.back().revents == 0)
    return;
  unsigned char orders[64];
  const ssize_t n = ::read(STDIN_FILENO, orders, sizeof orders);
  if (n < 0 && errno == EINTR) return;
  if (n <= 0) {
    under_orders_ = false;
    // The lcrun that gave them waits no longer for those that were told to end.
    if (ending_) kill_all(SIGKILL);
    end_job();
    return;
  }
  for (ssize_t i = 0; i < n; ++i) take_order(orders[i]);
}

void job::take_order(unsigned char order) {
  if (order == ORDER_PAGE) {
    ++pages_asked_;
    ask_who_waits("on request");
  } else if (order == ORDER_END) {
    // What made another host fail may be one that ends already, and be known here only later.
    for (rank_process& p : ranks_) p.has_own_end = !ending_ && (p.is_over || is_exiting(p.pid));
    end_job();
  } else if (order == SIGUSR1) {
    pass_to_who_handles(order);
  } else if (order > 0 && order < NSIG) {
    obey(order);
  }
}

void job::take_endings() {
  for (int i = 0; i < static_cast<int>(ranks_.size()); ++i) {
    rank_process& p = ranks_[static_cast<std::size_t>(i)];
    tell_if_stopped(p);
    siginfo_t info{};
    if (p.is_over ||
        ::waitid(P_PID, static_cast<id_t>(p.pid), &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
        info.si_pid != p.pid)
      continue;
    p.is_over = true;
    p.by_signal = info.si_code != CLD_EXITED;
    p.end_number = info.si_status;
    --alive_;
    p.out->drain();
    p.err->drain();
    endings_.push_back(ending{i, info.si_code != CLD_EXITED, info.si_status});
  }
  if (!has_to_wait_for_the_cause()) report_endings();
}

// The connection to a host that wants to read from the terminal: it is not in the foreground.
void job::tell_if_stopped(const rank_process& p) {
  siginfo_t info{};
  if (p.host.empty() || p.is_over ||
      ::waitid(P_PID, static_cast<id_t>(p.pid), &info, WSTOPPED | WNOHANG) != 0 ||
      info.si_pid != p.pid || (info.si_status != SIGTTIN && info.si_status != SIGTTOU))
    return;
  say("the --ssh command for host " + p.host +
      " has stopped: it asks something, but must not; try it alone, as in \"ssh " + p.host +
      " true\"");
}

job::blame job::blame_of(const ending& e) noexcept {
  if (!e.by_signal && e.number == 0) return blame::nobody;
  const int signal = e.by_signal ? e.number : e.number - 128;
  if (signal <= 0 || signal >= NSIG) return blame::exited;
  return signal == SIGABRT ? blame::aborted : blame::killed;
}

// A rank has failed, and another one is dying: the reason for the latter may be the cause.
bool job::has_to_wait_for_the_cause() {
  blame most = blame::nobody;
  for (const ending& e : endings_) most = std::min(most, blame_of(e));
  if (most == blame::nobody || most == blame::killed || ending_ || report_at_.is_over())
    return false;
  const auto is_dying = [this](const rank_process& p) {
    if (p.is_over) return false;
    // The second case: a shell that is about to learn how the rank that it started has ended.
    const int rank = opts_.first + static_cast<int>(&p - ranks_.data());
    return is_exiting(p.pid) || (p.host.empty() && service_.core().has_departed(rank));
  };
  if (std::none_of(ranks_.begin(), ranks_.end(), is_dying)) return false;
  if (report_at_.remaining_ms() < 0) report_at_ = lci::boot::deadline::in(CAUSE_DELAY);
  return true;
}

void job::report_endings() {
  report_at_ = lci::boot::deadline::never();
  // The first one is the cause.
  std::stable_sort(endings_.begin(), endings_.end(),
                   [](const ending& a, const ending& b) { return blame_of(a) < blame_of(b); });
  for (const ending& e : std::exchange(endings_, {})) report(e);
}

void job::report(const ending& e) {
  const rank_process& p = ranks_[static_cast<std::size_t>(e.index)];
  const int rank = opts_.first + e.index;
  std::string text =
      (p.host.empty() ? "rank " + std::to_string(rank) : "the --ssh command for host " + p.host) +
      " (pid " + std::to_string(p.pid) + ") ";
  if (e.by_signal)
    text += "died of signal " + std::to_string(e.number) + " (" + ::strsignal(e.number) + ")";
  else
    text += "exited with status " + std::to_string(e.number);
  if (p.host.empty()) service_.rank_ended(rank, text);
  if (!e.by_signal && e.number == 0) return;
  const bool asked_for = e.by_signal && e.number == forwarded_;
  // An agent has reported its own ranks, and the shell a missing lcrun; 255 is ssh's own status,
  // but an agent may end with it as well.
  const bool told = !p.host.empty() && !e.by_signal && (e.number != 255 || p.has_told_end());
  if (!p.host.empty() && !told) text += ": is this host reachable?";
  if ((!ending_ || p.has_own_end) && !asked_for && !told) say(text);
  if (status_ == 0) status_ = e.by_signal ? 128 + e.number : e.number;
  if (!opts_.keep_going) end_job();
}

void job::check_clock() {
  if (!killed_ && kill_at_.is_over()) {
    killed_ = true;
    kill_at_ = lci::boot::deadline::never();
    kill_all(SIGKILL);
  }
  // If the machine was suspended, an end may have been reported that we have not read yet.
  if (report_at_.is_over() || news_at_.is_over()) take_endings();
  if (news_at_.is_over()) {
    // The process lives on, but has left the job.
    service_.tell_failures();
    schedule_news();
  }
  if (timeout_.is_over()) run_out_of_time();
  if (page_end_.is_over()) stop_waiting_for_pages();
}

// All ranks have ended (or could not be started). The processes that they started end with them.
void job::finish() {
  // Else our status would be taken for that of an ssh which has lost us. It comes before what may
  // lack the end of its line.
  if (orders_ != nullptr && status_ == 255)
    err_sink().push(orders_->page_mark + std::string(line_stream::FAILED) + "\n");
  for (const rank_process& p : ranks_) ::kill(-p.pid, SIGKILL);
  if (opts_.hosts.empty()) kill_strays(socket_);
  for (rank_process& p : ranks_) {
    for (line_stream* stream : {p.out.get(), p.err.get()}) {
      stream->drain();
      stream->finish();
    }
  }
  // A reader may be slow, but a second request to end is obeyed.
  while ((out_.has_data() || err_.has_data()) && end_requests_ < 2) {
    set_.assign(1, pollfd{signals_.get(), POLLIN, 0});
    for (const sink* s : {&out_, &err_}) {
      if (s->has_data()) set_.push_back(pollfd{s->fd(), POLLOUT, 0});
    }
    if (::poll(set_.data(), set_.size(), -1) < 0) continue;
    for (const pollfd& entry : set_) {
      if (entry.revents == 0) continue;
      if (entry.fd == out_.fd()) write_some_of(out_);
      if (entry.fd == err_.fd()) write_some_of(err_);
    }
    if (set_[0].revents != 0) take_signals();
  }
  for (const rank_process& p : ranks_) {
    while (::waitpid(p.pid, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  ranks_.clear();
}

// A full disk, for example: the ranks have done well, but not all that they said is there.
void job::write_some_of(sink& to) {
  const int why = to.write_some();
  if (why == 0) return;
  // Nobody sees it if this is where it would be said: then the status tells it.
  say("output is lost: " + std::string(::strerror(why)));
  if (status_ == 0) status_ = 1;
}

void job::say(const std::string& text) { err_sink().push("lcrun: " + text + "\n"); }

}  // namespace lcrun
