// The end of peers: their sockets hang up, their processes end, they break the rules. Threads:
// under the fabric's lock, but for fail(). Always true: an end that was noticed is told, also where
// there is no memory for its reason.
#include <sys/epoll.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <new>

#include "backends/shm/connections.hpp"
#include "lci/base/log.hpp"
#include "lci/base/undo.hpp"
#include "lci/errors.hpp"

namespace lci::shm {

void connections::watch(int fd, std::uint32_t events) const {
  epoll_event e{};
  e.events = events;
  e.data.fd = fd;
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &e) != 0) {
    throw backend_error(std::string("shm: epoll_ctl: ") + std::strerror(errno));
  }
}

// In vain where the process is not visible from here; then its sockets have to do.
void connections::watch_process_locked(peer& who, pid_t pid) noexcept {
  if (pid <= 0 || pid == getpid()) return;
  for (const auto& [fd, one] : processes_)
    if (one.who == &who) return;
  base::descriptor end = watch_end(pid);
  if (!end) return;
  const int fd = end.get();
  try {
    const auto added = processes_.emplace(fd, process{std::move(end), &who}).first;
    base::undo entry([&]() noexcept { processes_.erase(added); });
    watch(fd, EPOLLIN);
    entry.keep();
  } catch (const std::exception& e) {
    log::debug("shm", "the process of rank %d is not watched: %s", who.rank, e.what());
  }
}

// An event may be older than the descriptor that has its number now: the process itself is asked.
void connections::look_at_process_locked(int fd) noexcept {
  const auto found = processes_.find(fd);
  if (found == processes_.end() || !has_ended(found->second.end)) return;
  peer& who = *found->second.who;
  processes_.erase(found);
  read_all_locked(who);  // what it said last, a bye perhaps
  if (who.has_said_bye)
    end_locked(who, ending::left, "it has left");
  else
    end_locked(who, ending::lost, "its process has ended");
  // A child of it may hold the other ends.
  std::erase_if(links_, [&](const auto& one) { return one.second.who == &who; });
  who.links = 0;
}

void connections::hang_up_locked(int fd, std::string_view why) noexcept {
  const auto found = links_.find(fd);
  link on = std::move(found->second);
  links_.erase(found);  // closing also takes it out of the epoll set
  if (on.who == nullptr) return;
  peer& who = *on.who;
  --who.links;
  // When both sides called at once it may have said bye on the other connection, which this look
  // has not come to.
  if (!who.has_said_bye) read_all_locked(who);
  if (why.empty()) {
    why = who.has_said_bye ? "it has left"
          : who.state.load(std::memory_order_relaxed) == contact::mapped
              ? "its connection hung up: the process has ended"
              : "it hung up before it said hello";
  }
  end_locked(who, who.has_said_bye ? ending::left : ending::lost, why);
}

// Whatever waits on the connections of one peer: one as a rule, two when both sides called at once.
void connections::read_all_locked(const peer& who) noexcept {
  std::array<int, 8> descriptors;
  std::size_t n = 0;
  for (const auto& [fd, on] : links_) {
    if (on.who == &who && n < descriptors.size()) descriptors[n++] = fd;
  }
  while (n > 0) read_locked(descriptors[--n]);
}

void connections::end_locked(peer& who, ending how, std::string_view why) noexcept {
  if (who.has_ended()) return;
  try {
    who.reason = why;
  } catch (const std::bad_alloc&) {
    // Better a death without a reason than none.
  }
  // edge peer.end: partner is inbox::close_lanes().
  who.end.store(how, std::memory_order_release);
  for (outbox* const box : boxes_)
    if (box != nullptr) box->close_locked(who.rank);
  ended_.push_back(&who);
  std::erase_if(processes_, [&](const auto& one) { return one.second.who == &who; });
  announce_here_locked();
}

void connections::fail(peer& who, std::string_view why) noexcept {
  const std::lock_guard lock(mutex_);
  end_locked(who, ending::broke_rules, why);
}

}  // namespace lci::shm
