#include "lci/share/server.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <memory>
#include <mutex>
#include <span>
#include <system_error>
#include <thread>
#include <utility>

#include "lci/base/passed_descriptors.hpp"
#include "lci/base/unshared.hpp"

namespace lci::share {
namespace {

// A peer has this long for its question, and the server for its answer. One peer at a time is
// served, so what one may take is short.
constexpr std::chrono::milliseconds QUESTION_TIME{200}, ANSWER_TIME{1000};
using clock = std::chrono::steady_clock;
constexpr int RETRY_MS = 10;         // after no descriptor was free for a caller
constexpr std::size_t MOST_FDS = 2;  // page, memory

// An abstract name: it ends with its owner and leaves no file.
socklen_t fill_address(sockaddr_un& to, std::uint64_t name) {
  to = {};
  to.sun_family = AF_UNIX;
  constexpr std::size_t ROOM = 40;
  const int length = std::snprintf(to.sun_path + 1, ROOM, "lci-buffer-%016llx",
                                   static_cast<unsigned long long>(name));
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 +
                                static_cast<std::size_t>(length));
}

void limit(int fd, int ms) {
  const timeval time{ms / 1000, ms % 1000 * 1000};
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof(time));
  setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &time, sizeof(time));
}

// Runs a call on the socket again when a signal has interrupted it: where there is a limit, any
// handler does that, and SIGCONT without one. It is over at `until`, however many signals come.
template <class Call>
ssize_t call_until(clock::time_point until, int fd, Call&& call) {
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - clock::now()).count();
    limit(fd, left > 0 ? static_cast<int>(left) : 1);  // 0 would be no limit
    const ssize_t result = call();
    if (result >= 0 || errno != EINTR || left <= 0) return result;
  }
}

// The process at the other end; of a listener, the one that listens.
ucred peer_of(int fd) {
  ucred peer{};
  peer.uid = static_cast<uid_t>(-1);
  socklen_t length = sizeof(peer);
  getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length);
  return peer;
}

void send_answer(int to, verdict found, std::span<const int> fds) {
  const auto word = static_cast<std::uint32_t>(found);
  // A peer that has ended does not get it.
  [[maybe_unused]] const ssize_t sent =
      base::send_with_descriptors(to, std::as_bytes(std::span(&word, 1)), fds, 0);
}

void serve_one(int peer) {
  if (peer_of(peer).uid != geteuid()) return;
  std::array<char, handle::BYTES> bytes;
  const ssize_t heard = call_until(clock::now() + QUESTION_TIME, peer, [&] {
    return recv(peer, bytes.data(), bytes.size(), MSG_WAITALL);
  });
  if (heard != static_cast<ssize_t>(bytes.size())) return;
  base::descriptor page, memory;
  verdict found = verdict::forged;
  try {
    const handle asked = handle::decode(std::string_view(bytes.data(), bytes.size()));
    found = exports::of_process().answer(asked, page, memory);
  } catch (const std::exception&) {  // malformed, or no memory: no descriptors
  }
  const std::array<int, MOST_FDS> fds{page.get(), memory.get()};
  send_answer(peer, found, std::span(fds).first(!page ? 0 : memory ? 2 : 1));
}

class server {
 public:
  server() : wake_(eventfd(0, EFD_CLOEXEC)), made_in_(getpid()) {
    listener_.reset(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    is_ours_.reset(listener_.get());
    sockaddr_un address;
    const socklen_t length = fill_address(address, exports::of_process().socket_name());
    if (!wake_ || !listener_ ||
        bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), length) != 0 ||
        listen(listener_.get(), SOMAXCONN) != 0)
      throw backend_error(std::string("the socket for importers of shared buffers: ") +
                          std::strerror(errno));
    // The program's signals are for its own threads.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    try {
      thread_ = std::thread([this] { run(); });
    } catch (const std::system_error& error) {
      pthread_sigmask(SIG_SETMASK, &before, nullptr);
      throw backend_error(std::string("no thread for importers of shared buffers: ") +
                          error.what());
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }
  ~server() {
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t told = write(wake_.get(), &one, sizeof(one));
    thread_.join();
    // A child that was forked just now may still have it; no peer is to wait for an answer there.
    shutdown(listener_.get(), SHUT_RDWR);
  }
  // In a child of fork(), of what its parent has.
  void close_copies() noexcept {
    is_ours_.reset();
    listener_.reset();
    wake_.reset();
  }
  bool is_ours() const noexcept { return made_in_ == getpid(); }

 private:
  void run() {
    for (;;) {
      std::array<pollfd, 2> both{pollfd{wake_.get(), POLLIN, 0},
                                 pollfd{listener_.get(), POLLIN, 0}};
      if (poll(both.data(), both.size(), -1) < 0) continue;
      if (both[0].revents != 0) return;
      const base::descriptor peer(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (peer) {
        serve_one(peer.get());
      } else if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
        // The caller stays in the queue, so the next look would be at once.
        poll(both.data(), 1, RETRY_MS);
      }
    }
  }

  base::descriptor wake_, listener_;
  base::unshared is_ours_;  // listener_: its name is free as soon as this process closes it
  const pid_t made_in_;
  std::thread thread_;
};

struct server_place {
  std::mutex mutex;  // guards the rest
  std::unique_ptr<server> running;
};

server_place& place() {
  static server_place* const one = new server_place;
  return *one;
}

// The importer's process has no room for an answer.
[[noreturn]] void refuse_for_room(const handle& h) {
  throw buffer_error(buffer_fault::no_room, "there is no free descriptor for what the server of " +
                                                owner_text(h) + " has to give");
}

}  // namespace

void start_server() {
  const std::lock_guard lock(place().mutex);
  std::unique_ptr<server>& running = place().running;
  if (running != nullptr && running->is_ours()) return;
  // The thread of a parent is not here: there is nothing to join, so its object stays.
  if (server* const parents = running.release()) parents->close_copies();
  running = std::make_unique<server>();
}

void stop_server() noexcept {
  const std::lock_guard lock(place().mutex);
  std::unique_ptr<server>& running = place().running;
  if (running != nullptr && running->is_ours()) running.reset();
}

bool is_serving() noexcept {
  const std::lock_guard lock(place().mutex);
  return place().running != nullptr && place().running->is_ours();
}

server_answer ask_server(const handle& h, std::string& why_not) {
  server_answer out;
  const base::descriptor fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd && is_no_room(errno)) refuse_for_room(h);
  sockaddr_un address;
  const socklen_t length = fill_address(address, h.socket);
  const clock::time_point until = clock::now() + ANSWER_TIME;
  why_not = "it does not serve (buffer::serve())";
  const ssize_t connected = call_until(until, fd.get(), [&] {
    return connect(fd.get(), reinterpret_cast<sockaddr*>(&address), length);
  });
  if (connected != 0) return out;
  const ucred peer = peer_of(fd.get());
  why_not = "another process has its socket's name";
  if (peer.uid != h.user || peer.pid != static_cast<pid_t>(h.pid)) return out;
  why_not = "its server did not answer";
  const std::string bytes = h.encode();
  const ssize_t sent = call_until(
      until, fd.get(), [&] { return send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL); });
  if (sent != static_cast<ssize_t>(bytes.size())) return out;
  std::uint32_t found = 0;
  base::received_descriptors got;
  call_until(until, fd.get(), [&] {
    got = base::receive_with_descriptors(fd.get(), std::as_writable_bytes(std::span(&found, 1)),
                                         MOST_FDS, 0);
    return got.bytes;
  });
  if (got.is_lost) refuse_for_room(h);
  out.page = std::move(got.passed[0]);
  out.memory = std::move(got.passed[1]);
  if (got.bytes == static_cast<ssize_t>(sizeof(found))) {
    why_not = "its server had no descriptor for it";
    if (found == static_cast<std::uint32_t>(verdict::stale)) out.found = verdict::stale;
    if (found == static_cast<std::uint32_t>(verdict::forged)) out.found = verdict::forged;
  }
  return out;
}

}  // namespace lci::share
