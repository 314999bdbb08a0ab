#include "lci/boot/kv_client.hpp"

#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <new>
#include <span>
#include <utility>

#include "lci/base/log.hpp"
#include "lci/base/passed_descriptors.hpp"
#include "lci/base/waiting_calls.hpp"
#include "lci/boot/meanwhile.hpp"
#include "lci/errors.hpp"

namespace lci::boot::kv {

namespace {

// The kernel delivers one file at most, with the last of the bytes, which are those that it was
// sent with.
ssize_t receive_with_file(int from, char* bytes, std::size_t size, base::descriptor& file,
                          bool& is_lost) noexcept {
  base::received_descriptors got = base::receive_with_descriptors(
      from, std::as_writable_bytes(std::span(bytes, size)), 1, MSG_DONTWAIT);
  is_lost = got.bytes > 0 && got.is_lost;
  if (got.bytes > 0 && got.passed[0]) file.reset(got.passed[0].release());
  return got.bytes;
}

}  // namespace

client::client(const char* backend, base::descriptor fd, int rank, int size,
               std::chrono::milliseconds limit)
    : fd_(std::move(fd)), is_ours_(fd_.get()), member_(backend, rank, size), limit_(limit) {}

bool client::join() {
  const deadline until = limit();
  if (seal_) send(seal_->greeting(), until);
  while (seal_ && !seal_->is_greeted()) {
    if (!receive_some(until, "for the greeting of rank 0")) return false;
  }
  send_output(until);
  while (!member_.is_welcome()) {
    if (!receive_some(until, "for all ranks to join")) return false;
  }
  return true;
}

void client::fence(meanwhile* work) {
  const deadline until = limit();
  const base::waiting_scope here("set-up, for all ranks");
  // Puts and arrival leave in one send; values and release come back in one stream.
  member_.begin_fence();
  send_output(until);
  const std::string what = "in fence " + std::to_string(member_.round());
  while (member_.fence_pending()) {
    if (!receive_some(until, what, work))
      member_.fail("lost the connection to the server while waiting " + what + ": " + lost_);
  }
}

std::vector<departure> client::news() {
  try {
    member_.receive({});  // handles what there was no memory for the last time
    while (lost_.empty() && wait_for(fd_.get(), POLLIN, deadline::in(std::chrono::milliseconds(0))))
      if (!receive_some(deadline::never(), "for reports")) break;
  } catch (const backend_error&) {
    // The member remembers it: the next fence reports it.
  }
  return member_.take_news();
}

void client::leave() noexcept {
  try {
    member_.leave();
    const std::string bytes = take_output();
    if (::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
      log::debug("boot", "no disconnect was sent: %s", errno_text(errno).c_str());
  } catch (const std::bad_alloc&) {
    // Then the others take our end for a failure.
  }
}

deadline client::limit() const {
  return limit_.count() > 0 ? deadline::in(limit_) : deadline::never();
}

std::string client::take_output() {
  std::string bytes = member_.take_output();
  return seal_ ? seal_->seal(bytes) : bytes;
}

void client::send_output(const deadline& until) { send(take_output(), until); }

void client::send(std::string_view bytes, const deadline& until) {
  std::size_t sent = 0;
  while (sent < bytes.size()) {
    const ssize_t n =
        ::send(fd_.get(), bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n >= 0) {
      sent += static_cast<std::size_t>(n);
      continue;
    }
    if (errno == EINTR) continue;
    if (errno == EAGAIN || errno == EWOULDBLOCK) {
      if (wait_for(fd_.get(), POLLOUT, until)) continue;
      member_.fail("the server takes no more data within the time limit");
    }
    // The server may have sent a reason before it hung up; that is worth more than "broken pipe".
    if (errno == EPIPE || errno == ECONNRESET) return;
    member_.fail("sending to the server failed: " + errno_text(errno));
  }
}

bool client::receive_some(const deadline& until, const std::string& what, meanwhile* work) {
  char bytes[64 * 1024];
  if (!wait_for(fd_.get(), POLLIN, until, work))
    member_.fail("waited " + std::to_string(limit_.count() / 1000) + " s " + what);
  // Reserve first: bytes that were received cannot be received again.
  std::string plain;
  if (seal_) plain.reserve(seal_->make_room(sizeof bytes));
  member_.make_room(seal_ ? plain.capacity() : sizeof bytes);
  base::descriptor file;
  bool is_lost = false;
  const ssize_t n = receive_with_file(fd_.get(), bytes, sizeof bytes, file, is_lost);
  if (is_lost) member_.fail("no descriptor is left for the launcher's file of set-up data");
  if (n > 0) {
    const std::string_view all(bytes, static_cast<std::size_t>(n));
    if (seal_ && !seal_->open(all, plain)) {
      member_.fail("the listener at the address of rank 0 is not of this job: " + seal_->why() +
                   " (LCT_PMI_TCP_KEY must be the same for all ranks)");
    }
    if (file) member_.take_file(std::move(file));
    member_.receive(seal_ ? std::string_view(plain) : all);
    return true;
  }
  if (n < 0 && (errno == EINTR || errno == EAGAIN || errno == EWOULDBLOCK)) return true;
  lost_ = n == 0 ? "it hung up" : errno_text(errno);
  return false;
}

}  // namespace lci::boot::kv
