#include "lci/transport/pair.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "lci/base/log.hpp"
#include "lci/errors.hpp"
#include "lci/transport/memory_table.hpp"
#include "lci/transport/strangers.hpp"
#include "lci/transport/url.hpp"
#include "lci/transport/without_job.hpp"

namespace lci::transports {

namespace {

constexpr const char* STEP_NAMES[] = {"calling the peer",
                                      "agreeing on keys",
                                      "waiting to be let in",
                                      "waiting for the call of the peer",
                                      "waiting for the settings of the peer",
                                      "opening networks",
                                      "waiting for the device of the peer",
                                      "connected",
                                      "closed"};

// A peer whose machine is lost is noticed, also when nothing is sent.
void keep_alive(int fd) noexcept {
  const int on = 1, idle_s = 10, between_s = 5, most = 3, most_ms = 25000;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  ::setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
  ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &between_s, sizeof between_s);
  ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &most, sizeof most);
  ::setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &most_ms, sizeof most_ms);
}

boot::sealed_stream::side side_of(int rank) noexcept {
  return rank == 0 ? boot::sealed_stream::side::root : boot::sealed_stream::side::joiner;
}

}  // namespace

const char* pair::name_of(step s) noexcept { return STEP_NAMES[static_cast<std::size_t>(s)]; }

pair::pair(pair_owner& owner, pair_name name)
    : owner_(&owner),
      name_(std::move(name)),
      due_(owner.now() + std::chrono::duration_cast<clock::duration>(
                             std::chrono::duration<double>(owner.options().timeout_s))) {}

pair::~pair() {
  close();
  if (owner_ != nullptr) owner_->forget(*this);
}

pair::state pair::now() const noexcept {
  return step_ == step::closed      ? state::closed
         : step_ == step::connected ? state::connected
                                    : state::connecting;
}

int pair::fd() const noexcept { return stream_ ? stream_->fd() : socket_.get(); }

bool pair::wants_write() const noexcept {
  return step_ == step::calling || (stream_ && stream_->wants_write());
}

runtime_t pair::runtime() const noexcept {
  return runtime_ != nullptr && runtime_->is_whole() ? runtime_->runtime() : runtime_t();
}

device_t pair::device() const noexcept {
  return runtime_ != nullptr && runtime_->is_whole() ? runtime_->device() : device_t();
}

std::string pair::describe() const {
  if (step_ == step::closed) return "closed: " + why_;
  return step_ == step::connected ? runtime_->summary() : name_of(step_);
}

void pair::become(step s) noexcept {
  step_ = s;
  if (s <= step::settling) is_heard_ = s >= step::proving;
  if (owner_ != nullptr && owner_->options().on_step != nullptr)
    owner_->options().on_step(name_of(s));
  if (owner_ == nullptr || (s != step::connected && s != step::closed)) return;
  // One that is closed is not with its owner any more: it may outlive it, and may be freed by any
  // thread.
  pair_owner& to = *owner_;
  if (s == step::closed) owner_ = nullptr;
  to.is_settled(*this);
}

void pair::watch() {
  if (owner_ != nullptr && fd() >= 0) owner_->watch(*this, fd(), wants_write());
}

void pair::call(const sockaddr_storage& to, socklen_t size, const boot::job_key& key) {
  me_ = 1;
  key_ = key;
  exchange_ = std::make_unique<boot::key_exchange>();
  socket_.reset(::socket(to.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket_) throw backend_error("transport: socket: " + boot::errno_text(errno));
  is_ours_.reset(socket_.get());
  keep_alive(socket_.get());
  const int error =
      ::connect(socket_.get(), reinterpret_cast<const sockaddr*>(&to), size) == 0 ? 0 : errno;
  become(step::calling);
  if (error != 0 && error != EINPROGRESS && error != EINTR)
    return peer_failed("it cannot be reached: " + boot::errno_text(error));
  watch();
}

void pair::let_in(control_stream&& stream) {
  drop_socket();  // of our own call, which does not count
  exchange_.reset();
  key_.reset();
  me_ = 0;
  keep_alive(stream.fd());
  stream_.emplace(std::move(stream));
  try {
    say(frame_type::welcome, {});
    say_settings();
    become(step::settling);
    stream_->flush();
    watch();
  } catch (const std::exception& e) {
    fail(std::current_exception(), in_step(e.what()), true);
  }
}

bool pair::progress() {
  if (step_ == step::closed) return false;
  const std::shared_ptr<pair> alive = shared_from_this();
  try {
    if (step_ == step::calling) return finish_call();
    if (step_ == step::greeting) return read_answer();
    return stream_ && serve_stream();
  } catch (const std::exception& e) {
    fail(std::current_exception(), in_step(e.what()), true);
    return true;
  }
}

bool pair::finish_call() {
  if (!boot::wait_for(socket_.get(), POLLOUT, boot::deadline::in(std::chrono::milliseconds(0))))
    return false;
  int error = 0;
  socklen_t size = sizeof error;
  if (::getsockopt(socket_.get(), SOL_SOCKET, SO_ERROR, &error, &size) != 0) error = errno;
  const std::string hello = error == 0 ? exchange_->hello(*key_) : std::string();
  // The first bytes of a connection: the system takes them all.
  if (error == 0 && ::send(socket_.get(), hello.data(), hello.size(), MSG_NOSIGNAL) !=
                        static_cast<ssize_t>(hello.size()))
    error = errno;
  if (error != 0) {
    peer_failed("it cannot be reached: " + boot::errno_text(error));
    return true;
  }
  become(step::greeting);
  watch();
  return true;
}

bool pair::read_answer() {
  char bytes[boot::key_exchange::MESSAGE];
  const ssize_t n = ::recv(socket_.get(), bytes, sizeof bytes - answer_.size(), MSG_DONTWAIT);
  if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return false;
  if (n <= 0) {
    peer_failed("it hung up: it does not know the URL, or not any more");
    return true;
  }
  answer_.append(bytes, static_cast<std::size_t>(n));
  if (answer_.size() < boot::key_exchange::MESSAGE) return true;
  auto seal = exchange_->open_answer(*key_, answer_);
  if (!seal) {
    peer_failed("the process at that address does not know the key of the URL");
    return true;
  }
  exchange_.reset();
  key_.reset();
  answer_.clear();
  is_ours_.reset();
  stream_.emplace(std::move(socket_), std::move(*seal));
  say(frame_type::join, join_words{owner_->self().id(), name_.peer, name_.number}.text());
  say_settings();
  become(step::proving);
  stream_->flush();
  watch();
  return true;
}

bool pair::serve_stream() {
  const bool wanted = stream_->wants_write();
  // What the peer said before it ended counts, also where it can be told nothing more.
  bool is_open = stream_->flush();
  is_open &= stream_->read();
  bool did = false;
  while (stream_) {
    std::optional<control_stream::frame> got = stream_->next();
    if (!got) break;
    did = true;
    handle(std::move(*got));
  }
  if (!stream_ || step_ == step::closed) return true;
  if (!is_open || stream_->is_broken()) {
    peer_failed(stream_->why());
    return true;
  }
  stream_->flush();
  if (wanted || stream_->wants_write()) watch();
  return did;
}

void pair::handle(control_stream::frame&& got) {
  switch (got.type) {
    case frame_type::leave:
      return peer_left();
    case frame_type::refusal:
      is_heard_ = false;
      [[fallthrough]];
    case frame_type::failure:
      return peer_refused(got.body.substr(0, 1024));
    case frame_type::message:
      if (step_ != step::connected) break;
      if (on_message)
        on_message(got.body);
      else
        keep_early(std::move(got.body));
      return;
    default:
      if (step_ != step::connected) return handle_setup(std::move(got));
  }
  throw backend_error("the peer sent an unexpected frame");
}

void pair::keep_early(std::string&& message) {
  early_bytes_ += message.size() + control_stream::HEAD;
  if (early_bytes_ > MOST_EARLY) throw backend_error("the peer's messages are not received here");
  early_.push_back(std::move(message));
}

void pair::handle_setup(control_stream::frame&& got) {
  if (step_ == step::proving && got.type == frame_type::welcome) return become(step::settling);
  if (step_ == step::proving && got.type == frame_type::yield) {
    drop_socket();
    return become(step::awaiting);
  }
  if (step_ == step::settling && got.type == frame_type::settings) return settle(got.body);
  if (step_ == step::introducing && got.type == frame_type::round) return introduce(got.body);
  if (step_ == step::readying && got.type == frame_type::ready) return become(step::connected);
  throw backend_error("the peer sent an unexpected frame");
}

void pair::say(frame_type type, std::string_view body) {
  if (body.size() > control_stream::MOST_BODY)
    throw backend_error("a message of the set-up is too long");
  stream_->put(type, body);
}

void pair::say_settings() {
  say(frame_type::settings,
      owner_->self().show(stream_->seal(), side_of(me_)) + join_names(owner_->options().providers));
}

// Others may hold the same URL as the peer: it shows that it is the hub whose id it has given, or
// the one that the URL names.
void pair::settle(std::string_view theirs) {
  const std::string_view shown = theirs.substr(0, boot::identity::SHOWN);
  if (!boot::identity::is_shown(shown, name_.peer, stream_->seal(), side_of(1 - me_)))
    throw backend_error("the peer is not the transport that it claims to be");
  theirs.remove_prefix(shown.size());
  runtime_ = std::make_unique<pair_runtime>(
      me_, owner_->defaults(), common_names(owner_->options().providers, split_names(theirs)));
  say(frame_type::round, runtime_->begin());
  become(step::introducing);
}

void pair::introduce(const std::string& theirs) {
  const std::optional<std::string> next = runtime_->heard(theirs);
  if (next) return say(frame_type::round, *next);
  say(frame_type::ready, {});
  become(step::readying);
}

bool pair::tell(std::string_view message) {
  if (message.size() > control_stream::MOST_BODY)
    throw argument_error("transport: a control message of " + std::to_string(message.size()) +
                         " bytes: at most " + std::to_string(control_stream::MOST_BODY));
  if (step_ != step::connected)
    throw argument_error("transport: a control message, and the connection is " + describe());
  const bool wanted = stream_->wants_write();
  const bool is_taken = stream_->put(frame_type::message, message);
  stream_->flush();  // an error is met again by progress()
  if (stream_->wants_write() != wanted) watch();
  return is_taken;
}

void pair::drop_socket() noexcept {
  if (fd() < 0) return;
  if (owner_ != nullptr) owner_->unwatch(fd());
  if (stream_) {
    stream_->flush();
    stream_->end();
  }
  stream_.reset();
  is_ours_.reset();
  socket_.reset();
}

void pair::close(bool sends_rest) noexcept {
  const bool is_read = step_ != step::closed;
  if (is_read) {
    if (stream_) {
      try {
        stream_->put(frame_type::leave, {});
      } catch (const std::bad_alloc&) {  // then it hangs up, which is worse, but an end as well
      }
    }
    drop_socket();
    why_ = "it was closed here";
    become(step::closed);
  }
  if (runtime_ == nullptr) return;
  if (runtime_->is_whole()) runtime_->end(sends_rest && is_read);
  runtime_.reset();
}

std::string pair::in_step(const std::string& why) const {
  return step_ == step::connected ? why : std::string(name_of(step_)) + ": " + why;
}

void pair::fail(const std::exception_ptr& problem, const std::string& why, bool is_told) noexcept {
  if (step_ == step::closed) return;
  try {
    why_ = without_job(why, me_);
    problem_ = without_job(problem, me_);
  } catch (const std::bad_alloc&) {  // then in the words of a job
    problem_ = problem;
  }
  if (is_told && stream_) {
    try {
      stream_->put(frame_type::failure, std::string_view(why_).substr(0, 1024));
    } catch (const std::bad_alloc&) {
    }
  }
  drop_socket();
  // A runtime that is in use stays until close(), so that its user can end what it has begun.
  if (runtime_ != nullptr && step_ != step::connected) runtime_.reset();
  if (runtime_ != nullptr) runtime_->peer_ended(false, why_);
  base::log::info("transport", "connection with %.8s: %s", name_.peer.c_str(), why_.c_str());
  become(step::closed);
}

void pair::peer_failed(const std::string& why) {
  const std::string text = in_step(why);
  fail(std::make_exception_ptr(peer_failure_error(1 - me_, text)), text, false);
}

void pair::peer_refused(const std::string& said) {
  if (step_ == step::connected) return peer_failed("it said: \"" + said + '"');
  const std::string text = in_step("the peer said: \"" + said + '"');
  fail(std::make_exception_ptr(backend_error(text)), text, false);
}

void pair::peer_left() {
  if (step_ != step::connected) return peer_failed("it has closed the connection");
  drop_socket();
  why_ = "the peer has closed the connection";
  // What it has sent is still on its way, over networks that will say when all is there.
  runtime_->peer_left(expects_more_);
  become(step::closed);
}

void pair::expect_more(bool more) noexcept {
  expects_more_ = more;
  if (step_ == step::closed && problem_ == nullptr && runtime_ != nullptr)
    runtime_->peer_left(more);
}

bool pair::has_peer_ended() const noexcept { return runtime_->has_peer_ended(); }

void pair::expire() {
  if (now() == state::connecting)
    peer_failed("it was not done within timeout_s, " + seconds_text(owner_->options().timeout_s) +
                " s");
}

void pair::end_owner() noexcept {
  close();
  owner_ = nullptr;
}

}  // namespace lci::transports
