#include "lci/transport/event_set.hpp"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>

#include "lci/errors.hpp"

namespace lci::transports {

namespace {

void add(int to, int fd) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = fd;
  if (::epoll_ctl(to, EPOLL_CTL_ADD, fd, &event) != 0)
    throw backend_error("transport: epoll_ctl: " + boot::errno_text(errno));
}

std::int64_t ns_of(std::chrono::steady_clock::duration span) noexcept {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(span).count();
}

}  // namespace

event_set::event_set(int hub_fd)
    : epoll_(::epoll_create1(EPOLL_CLOEXEC)),
      timer_(::timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC)),
      kick_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  if (!epoll_ || !timer_ || !kick_)
    throw backend_error("transport: no descriptors for events: " + boot::errno_text(errno));
  add(epoll_.get(), hub_fd);
  add(epoll_.get(), timer_.get());
}

void event_set::wake_at(time when) noexcept {
  if (when == armed_) return;
  armed_ = when;
  itimerspec spec{};
  if (when != time::max()) {
    const std::int64_t ns = std::max<std::int64_t>(ns_of(when.time_since_epoch()), 1);
    spec.it_value.tv_sec = ns / 1'000'000'000;
    spec.it_value.tv_nsec = ns % 1'000'000'000;
  }
  ::timerfd_settime(timer_.get(), TFD_TIMER_ABSTIME, &spec, nullptr);
}

void event_set::take_timer(time now) noexcept {
  if (armed_ > now) return;
  std::uint64_t count = 0;
  if (::read(timer_.get(), &count, sizeof count) > 0) armed_ = time::max();
}

void event_set::sleep(time until) noexcept {
  pollfd all[] = {{epoll_.get(), POLLIN, 0}, {kick_.get(), POLLIN, 0}};
  timespec span{};
  timespec* limit = nullptr;
  if (until != time::max()) {
    const std::int64_t ns =
        std::max<std::int64_t>(ns_of(until - std::chrono::steady_clock::now()), 0);
    span.tv_sec = ns / 1'000'000'000;
    span.tv_nsec = ns % 1'000'000'000;
    limit = &span;
  }
  if (::ppoll(all, 2, limit, nullptr) <= 0 || all[1].revents == 0) return;
  std::uint64_t count = 0;
  [[maybe_unused]] const ssize_t done = ::read(kick_.get(), &count, sizeof count);
}

void event_set::kick() noexcept {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t done = ::write(kick_.get(), &one, sizeof one);
}

}  // namespace lci::transports
