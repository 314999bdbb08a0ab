#include "lci/transport/control_stream.hpp"

#include <sys/socket.h>

#include <cerrno>
#include <utility>

namespace lci::transports {

control_stream::control_stream(base::descriptor socket, boot::sealed_stream&& seal)
    : fd_(std::move(socket)), is_ours_(fd_.get()), seal_(std::move(seal)) {}

bool control_stream::refuse(std::string why) {
  if (why_.empty()) why_ = std::move(why);
  return false;
}

bool control_stream::put(frame_type type, std::string_view body) {
  if (out_.size() - sent_ > MOST_QUEUED) return false;
  std::string plain(1, static_cast<char>(type));
  for (std::size_t i = 0; i < 4; ++i)
    plain += static_cast<char>(static_cast<unsigned char>(body.size() >> (8 * i)));
  plain.append(body);
  out_ += seal_.seal(plain);
  return true;
}

bool control_stream::flush() noexcept {
  while (sent_ < out_.size()) {
    const ssize_t n =
        ::send(fd_.get(), out_.data() + sent_, out_.size() - sent_, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
      // There may be something left each time; not each time is it moved.
      if (sent_ > MOST_QUEUED / 4) out_.erase(0, std::exchange(sent_, 0));
      return true;
    }
    if (n < 0) return refuse("its control connection broke: " + boot::errno_text(errno));
    sent_ += static_cast<std::size_t>(n);
  }
  out_.clear();
  sent_ = 0;
  return true;
}

void control_stream::end() noexcept {
  ::shutdown(fd_.get(), SHUT_WR);
  char bytes[16 * 1024];
  for (int round = 0; round < 8; ++round)
    if (::recv(fd_.get(), bytes, sizeof bytes, MSG_DONTWAIT) <= 0) return;
}

bool control_stream::read() {
  char bytes[16 * 1024];
  // Some rounds only: one peer that sends much does not hold up the others.
  for (int round = 0; round < 8; ++round) {
    const ssize_t n = ::recv(fd_.get(), bytes, sizeof bytes, MSG_DONTWAIT);
    if (n > 0) {
      if (!take_in(std::string_view(bytes, static_cast<std::size_t>(n)))) return false;
      if (static_cast<std::size_t>(n) < sizeof bytes) return true;
      if (in_.size() > HEAD + MOST_BODY) return true;  // first things first
      continue;
    }
    if (n == 0) return refuse("its control connection was closed: the process has ended");
    if (errno == EINTR) continue;
    if (errno == EAGAIN || errno == EWOULDBLOCK) return true;
    return refuse("its control connection broke: " + boot::errno_text(errno));
  }
  return true;
}

bool control_stream::take_in(std::string_view sealed) {
  return seal_.open(sealed, in_) || refuse(seal_.why());
}

std::optional<control_stream::frame> control_stream::next() {
  if (in_.size() < HEAD) return std::nullopt;
  std::size_t length = 0;
  for (std::size_t i = 0; i < 4; ++i)
    length |= static_cast<std::size_t>(static_cast<unsigned char>(in_[1 + i])) << (8 * i);
  const auto type = static_cast<frame_type>(in_[0]);
  if (length > MOST_BODY || type < frame_type::join || type > frame_type::failure) {
    refuse("it sent a frame that this version does not know");
    in_.clear();
    return std::nullopt;
  }
  if (in_.size() < HEAD + length) return std::nullopt;
  frame out{type, in_.substr(HEAD, length)};
  in_.erase(0, HEAD + length);
  return out;
}

}  // namespace lci::transports
