#include "lci/transport/hub.hpp"

#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <ctime>
#include <utility>

#include "lci/base/log.hpp"
#include "lci/base/undo.hpp"
#include "lci/errors.hpp"
#include "lci/runtime/job.hpp"
#include "lci/transport/memory_table.hpp"

namespace lci::transports {

namespace {

[[noreturn]] void fail(const std::string& what) {
  const int error = errno;
  throw backend_error("transport: " + what + ": " + boot::errno_text(error));
}

setup_options checked(setup_options options) {
  if (const auto why = hub::why_unsupported()) throw backend_error("transport: " + *why);
  if (options.port < 0 || options.port > 65535)
    throw argument_error("transport: the port " + std::to_string(options.port) +
                         " is not in 0..65535");
  check_seconds("transport", "valid_s", options.valid_s);
  check_seconds("transport", "timeout_s", options.timeout_s);
  if (options.timeout_s == 0) throw argument_error("transport: timeout_s is 0; expected more");
  if (options.uses < 0)
    throw argument_error("transport: uses is " + std::to_string(options.uses) +
                         "; expected 0 or more");
  if (!options.key.empty() && options.key.size() < boot::job_key::LEAST)
    throw argument_error("transport: the key has " + std::to_string(options.key.size()) +
                         " bytes; expected " + std::to_string(boot::job_key::LEAST) + " or more");
  for (const std::string& one : options.providers)
    if (one != "shm" && one != "ibv" && one != "ofi")
      throw argument_error("transport: the provider \"" + one + "\" is not one of shm, ibv, ofi");
  address_of(options.address, 0);
  return options;
}

clock::duration seconds(double s) {
  return std::chrono::duration_cast<clock::duration>(std::chrono::duration<double>(s));
}

}  // namespace

std::optional<std::string> hub::why_unsupported() { return boot::keys_unavailable(); }

hub::hub(setup_options options)
    : options_(checked(std::move(options))),
      defaults_(defaults_of_pair(runtime::defaults_now())),
      epoll_(::epoll_create1(EPOLL_CLOEXEC)),
      timer_(::timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC)),
      strangers_(options_.on_step) {
  if (!epoll_ || !timer_) fail("no descriptors for events");
  add_to_epoll(timer_.get(), EPOLLIN);
  runtime::start_alone();
}

hub::~hub() {
  stop();  // those of the program stay, closed
  for (auto& [id, from] : std::exchange(peers_, {}))
    for (auto& [number, one] : from.pairs) one->end_owner();
  runtime::end_alone();
}

void hub::stop() noexcept {
  paused_until_.reset();
  is_ours_.reset();
  listener_.reset();  // which takes them out of the epoll descriptor, as it does strangers
  strangers_.clear();
  for (const auto& one : std::exchange(accepted_, {})) one->close();
  for (const auto& [name, one] : std::exchange(callers_, {})) one->close();
}

clock::time_point hub::now() const noexcept {
  return options_.now != nullptr ? options_.now() : clock::now();
}

void hub::add_to_epoll(int fd, std::uint32_t events) {
  epoll_event event{};
  event.events = events;
  event.data.fd = fd;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) fail("epoll_ctl");
}

void hub::watch(pair& one, int fd, bool is_writing) {
  const std::uint32_t events = EPOLLIN | (is_writing ? std::uint32_t{EPOLLOUT} : 0);
  const auto [at, is_new] = sockets_.emplace(fd, watched{&one, is_writing});
  if (is_new) {
    base::undo entry([&, it = at]() noexcept { sockets_.erase(it); });
    add_to_epoll(fd, events);
    entry.keep();
    set_timer();
    return;
  }
  at->second.one = &one;
  if (std::exchange(at->second.is_writing, is_writing) == is_writing) return;
  epoll_event event{};
  event.events = events;
  event.data.fd = fd;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &event) != 0) fail("epoll_ctl");
}

void hub::unwatch(int fd) noexcept {
  if (sockets_.erase(fd) != 0) ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
}

void hub::listen() {
  const socket_address at = address_of(options_.address, options_.port);
  load_network(options_, options_.address, {});  // not while a peer waits, whose time runs
  base::descriptor made(
      ::socket(at.bytes.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!made) fail("socket");
  const int on = 1;
  ::setsockopt(made.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (::bind(made.get(), reinterpret_cast<const sockaddr*>(&at.bytes), at.size) != 0 ||
      ::listen(made.get(), 1024) != 0)
    fail("listen at " + options_.address + ", port " + std::to_string(options_.port));
  sockaddr_storage got{};
  socklen_t size = sizeof got;
  if (::getsockname(made.get(), reinterpret_cast<sockaddr*>(&got), &size) != 0) fail("getsockname");
  port_ = ntohs(got.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6*>(&got)->sin6_port
                                          : reinterpret_cast<sockaddr_in*>(&got)->sin_port);
  add_to_epoll(made.get(), EPOLLIN);
  listener_ = std::move(made);
  is_ours_.reset(listener_.get());
}

std::string hub::bind() {
  if (!listener_) listen();
  url out;
  out.address = options_.address;
  out.port = port_;
  out.id = id();
  out.providers = options_.providers;
  if (options_.key.empty()) out.key = boot::make_secret();
  if (options_.valid_s > 0)
    out.until = static_cast<std::uint64_t>(std::time(nullptr)) +
                static_cast<std::uint64_t>(options_.valid_s);
  const boot::job_key key(options_.key.empty() ? out.key : options_.key);
  // A common secret is one invitation: the last call of bind() says how long, and for how many.
  if (!options_.key.empty()) invitations_.clear();
  invitations_.add(key, now(),
                   options_.valid_s > 0 ? std::optional(seconds(options_.valid_s)) : std::nullopt,
                   options_.uses);
  return text_of(out);
}

std::shared_ptr<pair> hub::connect(const std::string& text) {
  const url to = parse_url(text);
  if (to.id == id()) throw argument_error("transport: this URL belongs to the same transport");
  if (to.key.empty() && options_.key.empty())
    throw argument_error("transport: the URL has no secret, and the options give none");
  const socket_address at = address_of(to.address, to.port);
  const boot::job_key key(to.key.empty() ? options_.key : to.key);
  load_network(options_, to.address, to.providers);  // before its time runs
  peer& with = peers_[to.id];
  const std::uint32_t called = with.called, over = with.over;
  const std::uint32_t number = std::max(called, over) + 1;
  with.called = number;
  if (pair* const there = find({to.id, number}); there != nullptr) {  // it has called us first
    std::shared_ptr<pair> found = there->shared_from_this();
    callers_.erase(found.get());
    std::erase(accepted_, found);
    return found;
  }
  // Both ends count the same calls, and the peer never hears of one that throws.
  base::undo count([&]() noexcept { recount(to.id, called, over); });
  auto made = make_pair({to.id, number});  // freed before the count is taken back
  made->call(at.bytes, at.size, key);
  count.keep();
  return made;
}

void hub::recount(const std::string& of, std::uint32_t called, std::uint32_t over) noexcept {
  const auto with = peers_.find(of);
  if (with == peers_.end()) return;  // that call was the only one
  with->second.called = called;
  with->second.over = over;
  if (with->second.pairs.empty()) peers_.erase(with);
}

std::shared_ptr<pair> hub::make_pair(const pair_name& name) {
  auto made = std::make_shared<pair>(static_cast<pair_owner&>(*this), name);
  peers_[name.peer].pairs.emplace(name.number, made.get());  // it takes itself out
  under_way_.emplace(made->due(), made.get());
  return made;
}

std::shared_ptr<pair> hub::accepted() {
  if (accepted_.empty()) return nullptr;
  std::shared_ptr<pair> out = std::move(accepted_.front());
  accepted_.pop_front();
  return out;
}

pair* hub::find(const pair_name& name) noexcept {
  const auto with = peers_.find(name.peer);
  if (with == peers_.end()) return nullptr;
  const auto found = with->second.pairs.find(name.number);
  return found == with->second.pairs.end() ? nullptr : found->second;
}

void hub::is_settled(pair& one) noexcept {
  under_way_.erase({one.due(), &one});
  set_timer();
  const auto found = callers_.find(&one);
  if (one.now() == pair::state::connected) {
    if (found == callers_.end()) return;
    try {
      accepted_.push_back(found->second);
      callers_.erase(found);
    } catch (const std::bad_alloc&) {  // it stays with us until the hub ends
    }
    return;
  }
  forget(one);
  if (found != callers_.end()) callers_.erase(found);
}

std::uint32_t hub::largest_of(const peer& with) noexcept {
  return with.pairs.empty() ? with.over : std::max(with.over, with.pairs.rbegin()->first);
}

void hub::forget(pair& one) noexcept {
  under_way_.erase({one.due(), &one});
  set_timer();
  const auto with = peers_.find(one.name().peer);
  if (with == peers_.end()) return;
  const auto found = with->second.pairs.find(one.name().number);
  if (found == with->second.pairs.end() || found->second != &one) return;
  with->second.pairs.erase(found);
  const std::uint32_t number = one.name().number;
  // A call of which the peer has not heard does not count there either.
  if (one.is_heard() || with->second.heard == number)
    with->second.over = std::max(with->second.over, number);
  else
    with->second.called = std::min(with->second.called, largest_of(with->second));
  // Both ends see the last one close, so both count anew.
  if (with->second.pairs.empty()) peers_.erase(with);
}

bool hub::progress() {
  std::array<epoll_event, 64> events;
  const int n = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), 0);
  bool did = false;
  for (int i = 0; i < n; ++i) {
    const epoll_event& one = events[static_cast<std::size_t>(i)];
    did |= handle(one.data.fd, one.events);
  }
  // A clock of a test moves without the timer.
  if (options_.now != nullptr) look_at_time();
  return did;
}

// An event may be older than the descriptor that has its number now: the look finds nothing.
bool hub::handle(int fd, std::uint32_t) {
  if (fd == timer_.get()) {
    look_at_time();
    return true;
  }
  if (listener_ && fd == listener_.get()) {
    accept_all();
    return true;
  }
  if (strangers_.has(fd)) {
    serve_stranger(fd);
    return true;
  }
  const auto found = sockets_.find(fd);
  return found != sockets_.end() && found->second.one->progress();
}

void hub::accept_all() {
  for (int left = MOST_ACCEPTS; left > 0; --left) {
    if (!strangers_.make_room(now())) return pause(strangers_.patient_until());
    base::descriptor fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!fd) {
      if (errno == EINTR || errno == ECONNABORTED) continue;
      if (errno == EAGAIN || errno == EWOULDBLOCK) return;
      warn("accept: " + boot::errno_text(errno));  // short of descriptors, most likely
      return pause(now() + strangers::PATIENCE);
    }
    const int number = fd.get();
    try {
      strangers_.add(std::move(fd), now(), seconds(options_.timeout_s));
      add_to_epoll(number, EPOLLIN);
    } catch (const std::exception& e) {
      strangers_.drop(number);
      warn(e.what());
      return pause(now() + strangers::PATIENCE);
    }
    set_timer();
    serve_stranger(number);
  }
}

// A flood of callers shall be no flood of lines.
void hub::warn(const std::string& what) {
  if (warnings_++ < MOST_WARNINGS)
    base::log::warn("transport", "no caller is accepted for a while: %s", what.c_str());
}

// The listener is level-triggered: callers that wait there would keep the descriptor busy.
void hub::pause(std::optional<clock::time_point> until) {
  paused_until_ = until;
  epoll_event event{};
  event.events = until ? 0 : std::uint32_t{EPOLLIN};
  event.data.fd = listener_.get();
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, listener_.get(), &event) != 0) fail("epoll_ctl");
  set_timer();
}

void hub::serve_stranger(int fd) {
  std::optional<strangers::guest> guest = strangers_.serve(fd, invitations_.keys());
  if (paused_until_ && strangers_.size() < strangers::MOST) pause(std::nullopt);
  if (!guest) return set_timer();  // it may have been dropped
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
  welcome(std::move(*guest));
}

// It knows the secret, so it may be told what is wrong.
void hub::welcome(strangers::guest&& guest) {
  control_stream stream(std::move(guest.socket), std::move(guest.seal));
  const pair_name name{guest.words.joiner, guest.words.number};
  const auto turn_away = [&](frame_type type, const std::string& why) {
    stream.put(type, why);
    stream.flush();
    stream.end();
  };
  if (guest.words.root != id())
    return turn_away(frame_type::refusal, "the URL is of another transport");
  // One that it has left, before it called again, may not know that yet.
  if (pair* const before = find(name); before != nullptr) before->progress();
  pair* const there = find(name);
  if (there != nullptr && (there->now() != pair::state::connecting || there->me() == 0))
    return turn_away(frame_type::refusal, "this connection exists already");
  // Both have called: the call of the hub with the lower id counts.
  if (there != nullptr && id() < name.peer) {
    peers_[name.peer].heard = name.number;
    return turn_away(frame_type::yield, {});
  }
  if (const std::string why = invitations_.use(guest.which, now()); !why.empty())
    return turn_away(frame_type::refusal, why);
  if (there != nullptr) return there->let_in(std::move(stream));
  auto made = make_pair(name);
  callers_.emplace(made.get(), made);
  made->let_in(std::move(stream));
}

void hub::look_at_time() {
  std::uint64_t expired = 0;
  // Makes the descriptor quiet.
  if (::read(timer_.get(), &expired, sizeof expired) < 0 && errno != EAGAIN) fail("timer");
  timer_at_.reset();
  const clock::time_point at = now();
  for (const int fd : strangers_.due(at)) strangers_.drop(fd);
  if (paused_until_ && (strangers_.size() < strangers::MOST || *paused_until_ <= at))
    pause(std::nullopt);
  while (!under_way_.empty() && under_way_.begin()->first <= at) {
    const std::shared_ptr<pair> late = under_way_.begin()->second->shared_from_this();
    under_way_.erase(under_way_.begin());
    late->expire();
  }
  set_timer();
}

// Rings when the first of those who are not there yet runs out of time; a hub where none is under
// way wakes no thread.
void hub::set_timer() noexcept {
  std::optional<clock::time_point> next = strangers_.next_due();
  if (!under_way_.empty() && (!next || under_way_.begin()->first < *next))
    next = under_way_.begin()->first;
  if (paused_until_ && (!next || *paused_until_ < *next)) next = paused_until_;
  if (next == timer_at_) return;
  timer_at_ = next;
  itimerspec spec{};  // off
  if (next) {
    const auto left = std::max(clock::duration(std::chrono::milliseconds(1)), *next - now());
    const auto whole = std::chrono::duration_cast<std::chrono::seconds>(left);
    spec.it_value.tv_sec = whole.count();
    spec.it_value.tv_nsec =
        std::chrono::duration_cast<std::chrono::nanoseconds>(left - whole).count();
  }
  ::timerfd_settime(timer_.get(), 0, &spec, nullptr);
}

}  // namespace lci::transports
