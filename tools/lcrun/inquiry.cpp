#include "tools/lcrun/inquiry.hpp"

#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "lci/errors.hpp"
#include "tools/lcrun/members.hpp"

namespace lcrun {

namespace {

using lci::boot::deadline;
namespace report_of = lci::base::report;

constexpr std::chrono::milliseconds TICK{50};  // between checks for stopped ranks

std::string describe(const member& one) {
  const char* const what = one.is_stopped()   ? "it is stopped"
                           : one.state == 'Z' ? "it is ending"
                                              : "it runs";
  return std::string(what) + " (pid " + std::to_string(one.pid) + ", state " + one.state + ")";
}

}  // namespace

inquiry::inquiry(const std::string& socket)
    : fd_(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {
  sockaddr_un at{};
  at.sun_family = AF_UNIX;
  std::memcpy(at.sun_path + 1, socket.data(), std::min(socket.size(), sizeof at.sun_path - 1));
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + socket.size());
  const int yes = 1;
  if (!fd_ || ::setsockopt(fd_.get(), SOL_SOCKET, SO_PASSCRED, &yes, sizeof yes) != 0 ||
      ::bind(fd_.get(), reinterpret_cast<const sockaddr*>(&at), size) != 0)
    throw lci::backend_error("cannot make a socket for reports: " + lci::boot::errno_text(errno));
}

void inquiry::begin(const std::vector<subject>& ranks) {
  about_.clear();
  for (const subject& who : ranks) {
    witness& one = about_.emplace_back();
    one.who = who;
    one.view.rank = who.rank;
    if (!who.ended.empty()) one.view.why_not = who.ended;
  }
  first_ = question_ + 1;
  ask();
}

void inquiry::ask() {
  ++question_;
  is_asked_ = true;
  limit_ = deadline::in(LIMIT);
  next_ = deadline::in(TICK);
  const process_groups now;
  for (witness& one : about_) {
    one.parts.clear();
    if (!one.who.ended.empty()) continue;
    for (const member& each : now.of(one.who.pid)) {
      if (!handles(each.pid, report_of::QUESTION)) continue;
      sigval number{};
      number.sival_int = question_;
      ::sigqueue(each.pid, report_of::QUESTION, number);
    }
    read_all();  // before all are asked, the answers of many ranks would fill the socket
  }
}

// False once no process can answer for it any more.
bool inquiry::waits_for(witness& one, const process_groups& now) {
  if (!one.who.ended.empty() || one.answered == question_) return false;
  bool has_any = false, may_answer = false;
  for (const member& each : now.of(one.who.pid)) {
    has_any = true;
    const bool is_able = handles(each.pid, report_of::QUESTION);
    if (is_able || !one.view.has_answered) {
      one.view.why_not =
          is_able ? "does not answer: " + describe(each)
                  : "has not initialized lci, or handles SIGURG itself: " + describe(each);
    }
    if (is_able && !each.is_stopped() && each.state != 'Z') may_answer = true;
    if (is_able) break;
  }
  if (!has_any) one.view.why_not = "has just ended";
  return may_answer;
}

bool inquiry::look() {
  if (!is_under_way()) return false;
  read_all();
  if (!is_asked_) {
    if (next_.is_over()) ask();
    return false;
  }
  bool is_waiting = false;
  if (std::any_of(about_.begin(), about_.end(),
                  [this](const witness& one) { return one.answered != question_; })) {
    const process_groups now;
    for (witness& one : about_) is_waiting |= waits_for(one, now);
  }
  if (is_waiting && !limit_.is_over()) {
    next_ = deadline::in(TICK);
    return false;
  }
  settle();
  const bool is_busy =
      std::any_of(about_.begin(), about_.end(), [](const witness& one) { return one.is_busy; });
  const int asked = question_ - first_ + 1;
  if (asked < QUESTIONS || (is_busy && asked < MOST_QUESTIONS)) {
    next_ = deadline::in(PAUSE);
    return false;
  }
  next_ = deadline::never();
  return true;
}

// The question is over: the answers received are all there will be.
void inquiry::settle() {
  is_asked_ = false;
  for (witness& one : about_) {
    if (one.answered != question_) {
      one.view.has_answered = false;
      one.is_busy = false;  // not worth another question
      continue;
    }
    one.view.records = std::move(one.parts);
    std::uint64_t rounds = 0;
    one.is_busy = false;
    for (const report_of::record& r : one.view.records) {
      if (r.what == report_of::kind::progress) rounds += r.number;
      if (r.what == report_of::kind::busy) one.is_busy = true;
    }
    if (!one.view.has_answered) one.view.rounds_before = rounds;
    one.view.has_answered = true;
    one.view.rounds = rounds;
  }
}

void inquiry::read_all() {
  char bytes[64 * 1024];
  for (;;) {
    iovec part{bytes, sizeof bytes};
    char control[CMSG_SPACE(sizeof(ucred))];
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    const ssize_t n = ::recvmsg(fd_.get(), &message, MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return;
    ucred sender{};
    for (cmsghdr* c = CMSG_FIRSTHDR(&message); c != nullptr; c = CMSG_NXTHDR(&message, c)) {
      if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_CREDENTIALS)
        std::memcpy(&sender, CMSG_DATA(c), sizeof sender);
    }
    if (sender.uid == ::geteuid()) take_in(bytes, static_cast<std::size_t>(n), sender.pid);
  }
}

void inquiry::take_in(const char* bytes, std::size_t size, pid_t sender) {
  report_of::header head{};
  if (size < sizeof head) return;
  std::memcpy(&head, bytes, sizeof head);
  if (head.magic != report_of::header::MAGIC || head.version != report_of::header::VERSION ||
      head.question != question_ || size != sizeof head + head.records * sizeof(report_of::record))
    return;
  const pid_t group = ::getpgid(sender);
  const auto of = std::find_if(about_.begin(), about_.end(), [&](const witness& one) {
    return one.who.pid == sender || one.who.pid == group;
  });
  // One process speaks for a rank: the first that has answered completely.
  if (of == about_.end() || of->answered == question_) return;
  if (head.part == 0) of->parts.clear();
  const std::size_t before = of->parts.size();
  of->parts.resize(before + head.records);
  std::memcpy(of->parts.data() + before, bytes + sizeof head,
              head.records * sizeof(report_of::record));
  if (head.is_last == 0) return;
  of->answered = question_;
  of->view.left_out = head.left_out;
}

std::vector<rank_view> inquiry::take() {
  std::vector<rank_view> out;
  for (witness& one : about_) out.push_back(std::move(one.view));
  about_.clear();
  return out;
}

}  // namespace lcrun
