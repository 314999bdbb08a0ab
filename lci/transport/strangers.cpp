#include "lci/transport/strangers.hpp"

#include <sys/socket.h>

#include <cerrno>
#include <utility>

#include "lci/transport/control_stream.hpp"

namespace lci::transports {

namespace {

constexpr std::size_t ID_BYTES = 16;
// Of the frame: its type, and the length of its body.
constexpr std::string_view JOIN_HEAD{"\1\x24\0\0\0", 5};
static_assert(JOIN_HEAD[0] == static_cast<char>(frame_type::join) &&
              JOIN_HEAD[1] == join_words::SIZE && JOIN_HEAD.size() == control_stream::HEAD);

std::string digits_of(std::string_view bytes) {
  constexpr char DIGITS[] = "0123456789abcdef";
  std::string out;
  for (const char c : bytes) {
    out += DIGITS[static_cast<unsigned char>(c) >> 4];
    out += DIGITS[static_cast<unsigned char>(c) & 15];
  }
  return out;
}

int value_of(char digit) noexcept { return digit <= '9' ? digit - '0' : digit - 'a' + 10; }

std::string bytes_of(std::string_view digits) {
  std::string out;
  for (std::size_t i = 0; i + 1 < digits.size(); i += 2)
    out += static_cast<char>(value_of(digits[i]) * 16 + value_of(digits[i + 1]));
  return out;
}

}  // namespace

std::string join_words::text() const {
  std::string out = bytes_of(joiner) + bytes_of(root);
  for (int i = 0; i < 4; ++i)
    out += static_cast<char>(static_cast<unsigned char>(number >> (8 * i)));
  return out;
}

std::optional<join_words> join_words::in(std::string_view body) {
  if (body.size() != SIZE) return std::nullopt;
  join_words out{digits_of(body.substr(0, ID_BYTES)), digits_of(body.substr(ID_BYTES, ID_BYTES)),
                 0};
  for (std::size_t i = 0; i < 4; ++i)
    out.number |= static_cast<std::uint32_t>(static_cast<unsigned char>(body[2 * ID_BYTES + i]))
                  << (8 * i);
  return out;
}

bool strangers::make_room(clock::time_point now) noexcept {
  if (all_.size() < MOST) return true;
  if (now < patient_until()) return false;
  drop(by_age_.begin()->second);
  return true;
}

clock::time_point strangers::patient_until() const {
  return all_.at(by_age_.begin()->second).since + PATIENCE;
}

void strangers::add(base::descriptor socket, clock::time_point now, clock::duration time) {
  const int fd = socket.get();
  stranger one;
  one.socket = std::move(socket);
  one.is_ours.reset(fd);
  one.since = now;
  one.due = now + time;
  one.age = next_age_++;
  by_age_.emplace(one.age, fd);
  all_.emplace(fd, std::move(one));
}

void strangers::drop(int fd) noexcept {
  const auto found = all_.find(fd);
  if (found == all_.end()) return;
  by_age_.erase(found->second.age);
  all_.erase(found);
}

std::vector<int> strangers::due(clock::time_point now) const {
  std::vector<int> out;
  for (const auto& [age, fd] : by_age_)
    if (all_.at(fd).due <= now) out.push_back(fd);
  return out;
}

std::optional<clock::time_point> strangers::next_due() const {
  if (by_age_.empty()) return std::nullopt;
  return all_.at(by_age_.begin()->second).due;
}

// False: it is none of those who were invited.
bool strangers::answer(stranger& one, const std::vector<boot::job_key>& keys) {
  const std::optional<std::size_t> which = boot::key_exchange::find(one.in, keys);
  if (!which) return false;
  const boot::key_exchange exchange;
  auto admitted = exchange.admit(one.in, keys[*which]);
  if (!admitted) return false;
  one.in.clear();
  one.which = *which;
  one.seal.emplace(std::move(admitted->stream));
  // The first bytes on this side: the system takes them all.
  return ::send(one.socket.get(), admitted->answer.data(), admitted->answer.size(),
                MSG_NOSIGNAL | MSG_DONTWAIT) == static_cast<ssize_t>(admitted->answer.size());
}

std::optional<strangers::guest> strangers::serve(int fd, const std::vector<boot::job_key>& keys) {
  stranger& one = all_.at(fd);
  for (;;) {
    const std::size_t wanted = one.seal ? RECORD : boot::key_exchange::MESSAGE;
    char bytes[FEW];
    const ssize_t n = ::recv(fd, bytes, wanted - one.in.size(), MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return std::nullopt;
    if (n <= 0) break;
    one.in.append(bytes, static_cast<std::size_t>(n));
    if (!one.seal && !boot::key_exchange::may_begin(one.in)) break;
    if (one.in.size() < wanted) continue;
    if (!one.seal) {
      if (!answer(one, keys)) break;
      if (on_answer_ != nullptr) on_answer_("a stranger is answered");
      continue;
    }
    std::string plain;
    if (!one.seal->open(one.in, plain) || plain.size() != control_stream::HEAD + join_words::SIZE ||
        plain.substr(0, control_stream::HEAD) != JOIN_HEAD)
      break;
    const auto words = join_words::in(std::string_view(plain).substr(control_stream::HEAD));
    guest out{std::move(one.socket), std::move(*one.seal), one.which, *words};
    one.is_ours.reset();
    drop(fd);
    return out;
  }
  drop(fd);
  return std::nullopt;
}

}  // namespace lci::transports
