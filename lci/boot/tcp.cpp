#include "lci/boot/tcp.hpp"

#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <exception>
#include <new>
#include <thread>
#include <utility>

#include "lci/boot/kv_client.hpp"
#include "lci/boot/kv_service.hpp"
#include "lci/boot/meanwhile.hpp"
#include "lci/boot/tcp_address.hpp"
#include "lci/boot/tcp_variables.hpp"
#include "lci/errors.hpp"

namespace lci::boot {

namespace {

// A fence is a short exchange: waiting for more bytes to fill a segment would only delay it. And
// keepalives detect a lost host before the time limit of a fence is over. None is sent while bytes
// are not acknowledged, so these have a limit, which is also that of keepalives: the sum of theirs.
void set_options(int fd) noexcept {
  const int on = 1, idle_s = 10, interval_s = 5, probes = 3, most_ms = 25000;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  ::setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
  ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval_s, sizeof interval_s);
  ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
  ::setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &most_ms, sizeof most_ms);
}

base::descriptor listen_on(const tcp_address& address) {
  base::descriptor fd(
      ::socket(address.bytes.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int on = 1;
  // Accepted sockets inherit the options: they are set before there can be one.
  if (fd) set_options(fd.get());
  // Allows the port of a job that has just ended to be reused at once.
  if (!fd || ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
      ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address.bytes), address.size) != 0 ||
      ::listen(fd.get(), SOMAXCONN) != 0) {
    const int why = errno;
    fd.reset();
    errno = why;
  }
  return fd;
}

// A name may stand for several addresses; the other ranks try them all, so any one will do. But if
// something else listens at one of them, they would meet that.
base::descriptor listen_on_first(const std::vector<tcp_address>& addresses,
                                 const std::string& source) {
  std::string tried;
  for (const tcp_address& a : addresses) {
    base::descriptor fd = listen_on(a);
    if (fd) return fd;
    const int why = errno;
    tried += (tried.empty() ? "" : "; ") + a.text + ": " + errno_text(why);
    if (why == EADDRINUSE) {
      tried +=
          " (something else listens there; LCT_MASTER_ADDR and LCT_MASTER_PORT choose another)";
      break;
    }
  }
  throw backend_error("tcp: rank 0 cannot listen at the address in " + source + ": " + tried);
}

// Rank 0: the server and a member in one process, joined by memory instead of a socket.
class tcp_root final : public bootstrap {
 public:
  tcp_root(base::descriptor listener, const tcp_variables& v)
      : limit_(v.limit),
        member_("tcp", 0, v.size),
        service_(std::move(listener), v.size, std::nullopt) {
    if (!v.secret.empty()) service_.require(job_key(v.secret));
    service_.attach(member_);
    join();
  }
  const char* name() const noexcept override { return "tcp"; }
  int rank() const noexcept override { return 0; }
  int size() const noexcept override { return member_.size(); }
  void put(const std::string& key, const std::string& value) override { member_.put(key, value); }
  std::string get(int rank, const std::string& key) override {
    return std::string(member_.get(rank, key));
  }

  bool has_news() const noexcept override { return true; }
  // The other ranks learn of departures through this one, so they depend on its calls.
  std::vector<departure> news() override {
    try {
      step(deadline::in(std::chrono::milliseconds(0)));
    } catch (const backend_error&) {
      // The member remembers it: the next fence reports it.
    } catch (const std::bad_alloc&) {
      // Bytes of some member may be lost: likewise.
      has_lost_words_ = true;
    }
    return member_.take_news();
  }
  void leave() noexcept override {
    try {
      service_.take_leave();
    } catch (const std::bad_alloc&) {
      // Then the others take our end for a failure.
    }
  }

  void fence() override { fence_with(nullptr); }
  void fence_with(meanwhile* work) override {
    const deadline until = deadline::in(limit_);
    try {
      if (has_lost_words_) member_.fail("there was no memory for a message from a rank");
      member_.begin_fence();
      service_.run_local();
      // No one serves the others once this returns, so it also waits until they have their data.
      while (member_.fence_pending() || !service_.flushed()) {
        if (!step(after_round(work, until)) && until.is_over())
          give_up("in fence " + std::to_string(member_.round()));
      }
    } catch (const std::exception& error) {
      // Without this rank the job cannot go on, also if it only had no memory; ranks that come
      // later find the reason in their socket.
      service_.fail_all(error.what());
      throw;
    }
  }

 private:
  // Returns when all ranks have joined and know it. From then on the port is closed.
  void join() {
    const deadline until = deadline::in(limit_);
    service_.run_local();
    while (!member_.is_welcome() || !service_.flushed()) {
      if (step(until)) continue;
      std::string ranks;
      for (const int r : service_.core().missing()) ranks += " " + std::to_string(r);
      give_up("for ranks to join; missing:" + (ranks.empty() ? " none" : ranks));
    }
    service_.stop_listening();
  }

  // Serves each peer that has sent something once; false when time is up.
  bool step(const deadline& until) {
    set_.clear();
    service_.add_to(set_);
    const int n = ::poll(set_.data(), set_.size(), until.remaining_ms());
    if (n < 0 && errno != EINTR) throw backend_error("tcp: poll failed: " + errno_text(errno));
    if (n > 0) service_.handle(set_);
    service_.run_local();
    return n != 0 || !until.is_over();
  }

  [[noreturn]] void give_up(const std::string& what) {
    const std::string why = "rank 0 waited " + std::to_string(limit_.count() / 1000) + " s " + what;
    service_.fail_all(why);
    member_.fail(why);
  }

  const std::chrono::milliseconds limit_;
  kv::member member_;  // before the service, which uses it
  kv::service service_;
  std::vector<pollfd> set_;
  bool has_lost_words_ = false;
};

// Every other rank.
class tcp_leaf final : public bootstrap {
 public:
  // A little more patient than rank 0, which knows which ranks are missing and tells all.
  tcp_leaf(base::descriptor fd, const tcp_variables& v)
      : client_("tcp", std::move(fd), v.rank, v.size, v.limit + std::chrono::seconds(2)) {
    if (!v.secret.empty()) client_.seal(job_key(v.secret));
  }
  bool join() { return client_.join(); }
  const char* name() const noexcept override { return "tcp"; }
  int rank() const noexcept override { return client_.state().rank(); }
  int size() const noexcept override { return client_.state().size(); }
  void put(const std::string& key, const std::string& value) override { client_.put(key, value); }
  void fence() override { client_.fence(); }
  void fence_with(meanwhile* work) override { client_.fence(work); }
  std::string get(int rank, const std::string& key) override {
    return std::string(client_.get(rank, key));
  }
  void get_all(const std::string& key, const visitor& visit) override {
    client_.get_all(key, visit);
  }
  bool has_news() const noexcept override { return true; }
  std::vector<departure> news() override {
    std::vector<departure> out = client_.news();
    const bool took_leave = client_.state().has_server_left();
    // Added alone: without memory for it nothing else is lost, and it is reported the next time.
    if (!out.empty() || is_root_missed_ || !(took_leave || client_.was_server_lost())) return out;
    out.push_back(took_leave ? departure{0, LEFT_TEXT, true}
                             : departure{0, "rank 0 ended without leaving the job"});
    is_root_missed_ = true;
    return out;
  }
  void leave() noexcept override { client_.leave(); }

 private:
  kv::client client_;
  bool is_root_missed_ = false;
};

// A connection attempt to a port of the range for outgoing connections may connect to itself.
bool is_self_connected(int fd) noexcept {
  sockaddr_storage here{}, there{};
  socklen_t here_size = sizeof here, there_size = sizeof there;
  return ::getsockname(fd, reinterpret_cast<sockaddr*>(&here), &here_size) == 0 &&
         ::getpeername(fd, reinterpret_cast<sockaddr*>(&there), &there_size) == 0 &&
         here_size == there_size && std::memcmp(&here, &there, here_size) == 0;
}

// What connect() has come to: an errno value. A host that does not answer at all would keep a
// blocking call for minutes.
int wait_connected(int fd, const deadline& until) {
  if (!wait_for(fd, POLLOUT, until)) return ETIMEDOUT;
  int error = 0;
  socklen_t size = sizeof error;
  return ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) == 0 ? error : errno;
}

// Empty: see errno.
base::descriptor connect_to(const tcp_address& address, const deadline& until) {
  base::descriptor fd(
      ::socket(address.bytes.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  int why = errno;
  if (fd) {
    const auto* const to = reinterpret_cast<const sockaddr*>(&address.bytes);
    why = ::connect(fd.get(), to, address.size) == 0 ? 0 : errno;
    if (why == EINPROGRESS || why == EINTR) why = wait_connected(fd.get(), until);
    if (why == 0 && is_self_connected(fd.get())) why = ECONNREFUSED;
    if (why == 0) {
      set_options(fd.get());
      return fd;
    }
  }
  fd.reset();
  errno = why;
  return fd;
}

// One address may take all the time that there is; of several a dead one must not, and the
// kernel's second repetition has gone out by then.
deadline end_of_attempt(std::size_t addresses, const deadline& until) {
  const auto left = std::chrono::milliseconds(until.remaining_ms());
  return deadline::in(addresses == 1 ? left : std::min(left, std::chrono::milliseconds(4000)));
}

// Rank 0 may start later than we do, its name may be entered only then, and an earlier job's rank 0
// may be about to exit: an unknown name, refusals and hang-ups are no answer until the time is up.
std::unique_ptr<bootstrap> join_root(const tcp_variables& v) {
  using std::chrono::milliseconds;
  const deadline until = deadline::in(v.limit);
  auto pause = milliseconds(2);
  std::string last;
  std::vector<tcp_address> addresses;
  do {
    if (addresses.empty())
      addresses = resolve(v.address, v.port, v.source, !v.secret.empty(), &last);
    for (const tcp_address& a : addresses) {
      base::descriptor fd = connect_to(a, end_of_attempt(addresses.size(), until));
      if (!fd) {
        last = a.text + ": " + errno_text(errno);
        continue;
      }
      auto leaf = std::make_unique<tcp_leaf>(std::move(fd), v);
      if (leaf->join()) return leaf;
      last = a.text + ": the listener there hung up; it may not be rank 0 of this job";
    }
    std::this_thread::sleep_for(std::min(pause, milliseconds(until.remaining_ms())));
    // All ranks ask the same name service, which is slower than a listener.
    pause = std::min(2 * pause, milliseconds(addresses.empty() ? 1000 : 100));
  } while (!until.is_over());
  throw backend_error("tcp: rank " + std::to_string(v.rank) + " tried for " +
                      std::to_string(v.limit.count() / 1000) +
                      " s to reach rank 0 at the address in " + v.source + "; last: " + last);
}

}  // namespace

std::optional<std::string> tcp_unavailable() {
  std::string why;
  if (read_tcp_variables(why)) return std::nullopt;
  return why;
}

std::unique_ptr<bootstrap> open_tcp() {
  std::string why;
  const auto variables = read_tcp_variables(why);
  if (!variables) throw backend_error("tcp: " + why);
  if (variables->rank != 0) return join_root(*variables);
  const auto addresses =
      resolve(variables->address, variables->port, variables->source, !variables->secret.empty());
  return std::make_unique<tcp_root>(listen_on_first(addresses, variables->source), *variables);
}

}  // namespace lci::boot
