#include "lci/runtime/report.hpp"

#include <signal.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <new>

#include "lci/base/env.hpp"
#include "lci/base/report.hpp"
#include "lci/base/spin.hpp"
#include "lci/base/waiting_calls.hpp"
#include "lci/proto/host/who_waits.hpp"
#include "lci/runtime/global.hpp"
#include "lci/runtime/runtime.hpp"

namespace lci::runtime {

struct answering {
  static constexpr std::size_t MOST_RUNTIMES = 16;
  std::atomic<bool> is_at_it{false};
  std::atomic<runtime_impl_t*> runtimes[MOST_RUNTIMES] = {};
  base::report::moment start;
  sockaddr_un to{};
  socklen_t to_size = 0;
  base::report::sheet sheet;
};

namespace {

namespace report_of = base::report;
using report_of::header;
using report_of::kind;
using report_of::record;

// In a datagram: a size that every system accepts.
constexpr std::size_t MOST_RECORDS = 256;

answering* answers() noexcept { return static_cast<answering*>(global().answers); }

void report_runtime(runtime_impl_t& one, report_of::sheet& to) noexcept {
  const matching_engine_impl_t* const engine = one.collective_engine.p_impl;
  const std::uint32_t number = engine != nullptr ? engine->match.first_rcomp : 0;
  if (record* const r = engine != nullptr ? to.add(kind::engine) : nullptr) {
    r->engine = number;
    r->number = engine->next_collective.load(std::memory_order_relaxed);
  }
  const bool has_list = one.unfinished.try_look([&](const lci::detail::unfinished_text_t& what) {
    record* const r = to.add(kind::collective, what.name);
    if (r == nullptr) return;
    r->engine = what.engine == engine ? number : 0;
    r->number = what.number;
    r->object = reinterpret_cast<std::uintptr_t>(what.object);
    r->other = reinterpret_cast<std::uintptr_t>(what.transfers);
  });
  if (!has_list) to.add(kind::busy, "collectives");
  record* const before = to.end();
  proto::report(one.core, to);
  for (record* r = before; r != to.end(); ++r)
    if (r->what == kind::progress) r->age_ms = to.age_of(one.last_look());
}

void send_all(const answering& us, int question) noexcept {
  const int fd = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return;
  const timeval limit{1, 0};  // for a launcher that stops reading
  ::setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
  header head{header::MAGIC,
              header::VERSION,
              global().rank,
              global().size,
              static_cast<std::int32_t>(::getpid()),
              question,
              0,
              0,
              0,
              us.sheet.left_out()};
  const record* at = us.sheet.begin();
  do {
    const auto left = static_cast<std::size_t>(us.sheet.end() - at);
    head.records = static_cast<std::uint32_t>(std::min(left, MOST_RECORDS));
    head.is_last = head.records == left;
    iovec parts[2] = {{&head, sizeof head},
                      {const_cast<record*>(at), head.records * sizeof(record)}};
    msghdr message{};
    message.msg_name = const_cast<sockaddr_un*>(&us.to);
    message.msg_namelen = us.to_size;
    message.msg_iov = parts;
    message.msg_iovlen = 2;
    if (::sendmsg(fd, &message, MSG_NOSIGNAL) < 0) break;
    at += head.records;
    ++head.part;
  } while (head.is_last == 0);
  ::close(fd);
}

// Uses only what may be called wherever a thread was interrupted.
void on_question(int, siginfo_t* info, void*) {
  const int error = errno;
  answering& us = *answers();
  // In a forked child nothing above is its own; a signal from elsewhere is not meant for this code;
  // and if a thread is at it already, it answers.
  if (info->si_code == SI_QUEUE && !global().is_forked && !us.is_at_it.exchange(true)) {
    us.sheet.begin_at(us.start);
    base::report_waiting(us.sheet);
    for (auto& each : us.runtimes) {
      // edge report.runtime, reader
      if (runtime_impl_t* const one = each.load(std::memory_order_seq_cst); one != nullptr)
        report_runtime(*one, us.sheet);
    }
    send_all(us, info->si_value.sival_int);
    // edge report.done, writer
    us.is_at_it.store(false, std::memory_order_seq_cst);
  }
  errno = error;
}

}  // namespace

void listen() noexcept {
  const auto name = base::env::find(report_of::SOCKET_VARIABLE);
  if (!name || name->size() + 1 > sizeof(sockaddr_un::sun_path)) return;
  struct sigaction before {};
  if (::sigaction(report_of::QUESTION, nullptr, &before) != 0 ||
      (before.sa_flags & SA_SIGINFO) != 0 || before.sa_handler != SIG_DFL)
    return;
  if (answers() == nullptr) global().answers = new (std::nothrow) answering;
  if (answers() == nullptr) return;
  answering& us = *answers();
  us.to.sun_family = AF_UNIX;
  std::memcpy(us.to.sun_path + 1, name->data(), name->size());
  us.to_size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name->size());
  us.start = report_of::moment::now();
  struct sigaction ours {};
  ours.sa_sigaction = &on_question;
  ours.sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK;
  sigfillset(&ours.sa_mask);
  ::sigaction(report_of::QUESTION, &ours, nullptr);
}

void end_listen() noexcept {
  struct sigaction now {};
  if (::sigaction(report_of::QUESTION, nullptr, &now) != 0 || (now.sa_flags & SA_SIGINFO) == 0 ||
      now.sa_sigaction != &on_question)
    return;
  now = {};
  now.sa_handler = SIG_DFL;
  ::sigaction(report_of::QUESTION, &now, nullptr);
}

void watch(runtime_impl_t& one) noexcept {
  if (answers() == nullptr) return;
  answering& us = *answers();
  for (auto& each : us.runtimes) {
    if (each.load(std::memory_order_relaxed) != nullptr) continue;
    // edge report.runtime, writer
    each.store(&one, std::memory_order_seq_cst);
    return;
  }
}

void unwatch(runtime_impl_t& one) noexcept {
  if (answers() == nullptr) return;
  answering& us = *answers();
  for (auto& each : us.runtimes) {
    // edge report.runtime, writer
    if (each.load(std::memory_order_relaxed) == &one)
      each.store(nullptr, std::memory_order_seq_cst);
  }
  // A handler that began earlier, in another thread, may still use the runtime: wait for it. A
  // handler in this thread has ended.
  // edge report.done, reader
  for (base::spin_wait wait; us.is_at_it.load(std::memory_order_seq_cst);) wait();
}

}  // namespace lci::runtime
