#include "lci/boot/kv_service.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <span>
#include <utility>

#include "lci/base/log.hpp"
#include "lci/base/passed_descriptors.hpp"
#include "lci/boot/shared_bytes.hpp"
#include "lci/errors.hpp"

namespace lci::boot::kv {

service::service(base::descriptor listener, int size, std::optional<uid_t> only_uid, bool hold_news)
    : listener_(std::move(listener)),
      is_ours_(listener_.get()),
      size_(size),
      server_(size, hold_news),
      only_uid_(only_uid) {}

void service::add_to(std::vector<pollfd>& set) const {
  // In order of arrival, and the listener last: a process that leaves and joins again has hung up
  // before it connects, and handle() must see the two in that order.
  for (const auto& [age, fd] : by_age_) {
    const link& l = links_.at(fd);
    const short in = l.closing ? 0 : POLLIN;
    const short out = l.queue.empty() ? 0 : POLLOUT;
    set.push_back(pollfd{fd, static_cast<short>(in | out), 0});
  }
  if (listener_) set.push_back(pollfd{listener_.get(), POLLIN, 0});
}

void service::handle(const std::vector<pollfd>& set) {
  bool has_callers = false;
  for (const pollfd& entry : set) {
    if (entry.revents == 0) continue;
    if (listener_ && entry.fd == listener_.get()) has_callers = true;
    if (links_.count(entry.fd) != 0) serve(entry);  // else dropped meanwhile, or not ours
  }
  progress();
  if (has_callers) accept_all();
}

void service::serve(const pollfd& entry) {
  link& l = links_.at(entry.fd);
  const bool broken = (entry.revents & (POLLERR | POLLNVAL)) != 0;
  const bool hung_up = (entry.revents & POLLHUP) != 0;
  const bool readable = ((entry.revents & POLLIN) != 0 || hung_up) && !l.closing;
  // What a peer sent before it hung up counts, so reading comes before closing.
  const bool ended = readable ? !read_from(entry.fd, hung_up) : broken || hung_up;
  const auto still = links_.find(entry.fd);
  if (still == links_.end()) return;
  if (ended)
    close(entry.fd);
  else if (!flush(still->second))
    lose(entry.fd);
}

void service::stop_listening() {
  listener_.reset();
  std::vector<int> strangers;
  for (const auto& [fd, l] : links_) {
    if (!server_.is_member(fd)) strangers.push_back(fd);
  }
  for (const int fd : strangers) close(fd);
}

bool service::flushed() const noexcept {
  return std::all_of(links_.begin(), links_.end(),
                     [](const auto& entry) { return entry.second.queue.empty(); });
}

void service::attach(member& local) {
  local_ = &local;
  server_.opened(LOCAL);
}

void service::run_local() {
  if (local_ == nullptr) return;
  server_.received(LOCAL, local_->take_output());
  progress();
  const std::string bytes = std::exchange(local_in_, {});
  local_->receive(bytes);
}

void service::fail_all(const std::string& why) {
  server_.fail_all(why);
  progress();
}

void service::rank_ended(int rank, const std::string& why) {
  server_.rank_ended(rank, why);
  progress();
}

void service::take_leave() {
  server_.take_leave();
  progress();
}

void service::tell_failures() {
  server_.tell_failures();
  progress();
}

// Logged often enough to be noticed; a flood of strangers shall not become a flood of lines.
void service::refuse(long user) {
  if (refused_ < MOST_WARNINGS) log::warn("boot", "connection of user %ld refused", user);
  if (++refused_ == MOST_WARNINGS) log::warn("boot", "further refusals will not be shown");
}

void service::accept_all() {
  for (int left = MAX_ACCEPTS; left > 0; --left) {
    base::descriptor fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!fd) {
      if (errno == EINTR || errno == ECONNABORTED) continue;
      if (errno == EAGAIN || errno == EWOULDBLOCK) return;
      // Out of descriptors, most likely. Retrying at once would spin for ever.
      throw backend_error("accept failed with " + std::to_string(links_.size()) +
                          " connections open: " + errno_text(errno));
    }
    if (only_uid_ && peer_uid(fd.get()) != static_cast<long>(*only_uid_)) {
      refuse(peer_uid(fd.get()));
      continue;
    }
    drop_oldest_stranger();
    const int number = fd.get();
    link& l = links_[number];
    l.fd = std::move(fd);
    l.is_ours.reset(number);
    l.age = next_age_++;
    if (key_) l.seal.emplace(*key_, sealed_stream::side::root);
    by_age_.emplace(l.age, number);
    server_.opened(number);
  }
}

void service::drop_oldest_stranger() {
  std::size_t strangers = 0;
  int oldest = -1;
  for (const auto& [age, fd] : by_age_) {
    if (server_.is_member(fd)) continue;
    if (strangers++ == 0) oldest = fd;
  }
  if (strangers >= static_cast<std::size_t>(size_) + MAX_STRANGERS) close(oldest);
}

// False when the peer has hung up. `to_the_end`: it is known to have, so everything it sent is read
// now; otherwise only a few rounds, so that one peer that sends much does not hold up the others.
bool service::read_from(int fd, bool to_the_end) {
  char bytes[16 * 1024];
  for (int round = 0; to_the_end || round < 8; ++round) {
    const ssize_t n = ::recv(fd, bytes, sizeof bytes, MSG_DONTWAIT);
    if (n > 0) {
      take_in(links_.at(fd), std::string_view(bytes, static_cast<std::size_t>(n)));
      if (!to_the_end && static_cast<std::size_t>(n) < sizeof bytes) return true;
      continue;
    }
    if (n < 0 && errno == EINTR) continue;
    return n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
  }
  return true;
}

// Passes bytes on to the server, if they are sealed as they should be.
void service::take_in(link& l, std::string_view bytes) {
  const int fd = l.fd.get();
  if (!l.seal) {
    server_.received(fd, bytes);
    return;
  }
  if (!l.seal->why().empty()) return;  // refused already
  std::string plain;
  const bool was_greeted = l.seal->is_greeted();
  const bool right = l.seal->open(bytes, plain);
  if (!was_greeted && l.seal->is_greeted())
    l.queue.push_back({std::make_shared<const std::string>(l.seal->greeting()), nullptr, nullptr});
  if (!plain.empty()) server_.received(fd, plain);
  if (!right)
    server_.refuse(
        fd, l.seal->why() + "; this job has a key (LCT_PMI_TCP_KEY), the same for all ranks");
}

// A peer that has not proven that it knows the key is answered unsealed: it could not read sealed
// bytes.
void service::enqueue(link& l, std::shared_ptr<const std::string> bytes) {
  if (l.seal && l.seal->is_proven())
    bytes = std::make_shared<const std::string>(l.seal->seal(*bytes));
  const bool is_shared = only_uid_ && !l.seal && bytes->size() >= MIN_SHARED;
  if (auto shared = is_shared ? in_a_file(bytes) : std::nullopt)
    l.queue.push_back(std::move(*shared));
  else
    l.queue.push_back({std::move(bytes), nullptr, nullptr});
}

// All members get the same bytes in turn, so the last file is kept.
std::optional<service::piece> service::in_a_file(const std::shared_ptr<const std::string>& bytes) {
  if (shared_.lock() != bytes) {
    auto file = std::make_shared<base::descriptor>(share(*bytes));
    std::string frame;
    encode_shared(frame, bytes->size());
    in_a_file_ = {std::make_shared<const std::string>(std::move(frame)), std::move(file), bytes};
    shared_ = bytes;
  }
  if (!*in_a_file_.file) return std::nullopt;
  return in_a_file_;
}

// Moves the server's outputs into the sockets, as far as these take them.
void service::progress() {
  std::vector<int> dead;
  auto outputs = server_.take_outputs();
  for (server::output& out : outputs) {
    if (out.to == LOCAL) {
      if (out.bytes) local_in_ += *out.bytes;
      continue;
    }
    const auto found = links_.find(out.to);
    if (found == links_.end()) continue;
    link& l = found->second;
    if (out.bytes && !out.bytes->empty()) enqueue(l, std::move(out.bytes));
    // If it were closed at once the refusal might be lost; so that is sent first.
    l.closing = l.closing || out.then_close;
    if (!flush(l)) dead.push_back(out.to);
  }
  // Not inside the loop: closing makes new outputs, and changes links_.
  for (const int fd : dead) lose(fd);
  if (!dead.empty()) progress();
}

bool service::flush(link& l) noexcept {
  while (!l.queue.empty()) {
    piece& next = l.queue.front();
    const std::string& bytes = *next.bytes;
    const std::string_view left = std::string_view(bytes).substr(l.sent);
    // Its file goes with the first bytes.
    const int file = next.file && l.sent == 0 ? next.file->get() : -1;
    const ssize_t n =
        base::send_with_descriptors(l.fd.get(), std::as_bytes(std::span(left)),
                                    std::span(&file, file >= 0 ? 1 : 0), MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && next.file && l.sent == 0 && errno != EAGAIN && errno != EPIPE &&
        errno != ECONNRESET) {
      // Too many descriptors of this user are on their way (ETOOMANYREFS), say: that ends no rank.
      next = {std::move(next.without), nullptr, nullptr};
      continue;
    }
    if (n < 0) return errno == EAGAIN || errno == EWOULDBLOCK;
    l.sent += static_cast<std::size_t>(n);
    if (l.sent < bytes.size()) continue;
    l.queue.pop_front();
    l.sent = 0;
  }
  return !l.closing;
}

// Its announcement that it leaves, say, which may have come while others were served.
void service::lose(int fd) {
  const auto found = links_.find(fd);
  if (found == links_.end()) return;
  if (!found->second.closing) read_from(fd, false);
  close(fd);
}

void service::close(int fd) {
  const auto found = links_.find(fd);
  if (found == links_.end()) return;
  by_age_.erase(found->second.age);
  links_.erase(found);
  server_.closed(fd);
}

}  // namespace lci::boot::kv
