#include "lci/boot/pmi_wire.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <system_error>

#include "lci/base/env.hpp"
#include "lci/boot/bootstrap.hpp"
#include "lci/boot/mpi_library.hpp"
#include "lci/errors.hpp"

namespace lci::boot::pmi {

namespace {

constexpr std::size_t LENGTH_PLACES = 6;
constexpr std::chrono::milliseconds LAST_ANSWER{1000};
constexpr std::size_t QUOTED = 120;  // bytes of an answer that an error shows

// The printable form of bytes from a stranger.
std::string quote(std::string_view bytes) {
  std::string out = "\"";
  for (const char byte : bytes.substr(0, QUOTED)) out += byte >= ' ' && byte <= '~' ? byte : '?';
  return out + (bytes.size() > QUOTED ? "...\"" : "\"");
}

bool is_socket(int fd) noexcept {
  struct stat facts {};
  return ::fstat(fd, &facts) == 0 && S_ISSOCK(facts.st_mode);
}

}  // namespace

std::optional<std::string_view> fields::find(std::string_view name) const noexcept {
  for (const auto& [key, value] : list_) {
    if (key == name) return std::string_view(value);
  }
  return std::nullopt;
}

std::optional<int> fields::find_int(std::string_view name, int low, int high) const noexcept {
  const auto text = find(name);
  int value = 0;
  if (!text || text->empty()) return std::nullopt;
  const char* const end = text->data() + text->size();
  const auto parsed = std::from_chars(text->data(), end, value);
  if (parsed.ec != std::errc() || parsed.ptr != end || value < low || value > high)
    return std::nullopt;
  return value;
}

bool fields::append_to_last(std::string_view text) {
  if (list_.empty()) return false;
  list_.back().second.append(" ").append(text);
  return true;
}

std::optional<fields> parse_line(std::string_view line) {
  fields out;
  while (!line.empty()) {
    const std::string_view word = line.substr(0, line.find(' '));
    line.remove_prefix(word.size() < line.size() ? word.size() + 1 : word.size());
    if (word.empty()) continue;
    const std::size_t equals = word.find('=');
    // Error messages contain blanks.
    if (equals == std::string_view::npos) {
      if (!out.append_to_last(word)) return std::nullopt;
      continue;
    }
    if (equals == 0) return std::nullopt;
    out.add(word.substr(0, equals), word.substr(equals + 1));
  }
  if (out.list().empty()) return std::nullopt;
  return out;
}

std::optional<fields> parse_message(std::string_view body) {
  fields out;
  while (!body.empty()) {
    const std::size_t equals = body.find('=');
    if (equals == 0 || equals == std::string_view::npos) return std::nullopt;
    const std::string_view name = body.substr(0, equals);
    if (name.find(';') != std::string_view::npos) return std::nullopt;
    body.remove_prefix(equals + 1);
    std::string value;
    for (;;) {
      const std::size_t end = body.find(';');
      if (end == std::string_view::npos) return std::nullopt;  // the last one is closed too
      value += body.substr(0, end);
      body.remove_prefix(end + 1);
      if (body.empty() || body.front() != ';') break;
      value += ';';
      body.remove_prefix(1);
    }
    out.add(name, value);
  }
  if (out.list().empty()) return std::nullopt;
  return out;
}

std::string to_line(const fields& command) {
  std::string out;
  for (const auto& [name, value] : command.list())
    out.append(out.empty() ? "" : " ").append(name).append("=").append(value);
  return out + "\n";
}

std::string to_message(const fields& command) {
  std::string body;
  for (const auto& [name, value] : command.list()) {
    body.append(name).append("=");
    for (const char byte : value) body.append(byte == ';' ? 2 : 1, byte);
    body += ';';
  }
  char length[16];
  std::snprintf(length, sizeof length, "%6zu", body.size());
  return length + body;
}

std::optional<std::size_t> parse_length(std::string_view six) {
  if (six.size() != LENGTH_PLACES) return std::nullopt;
  const std::size_t first = six.find_first_not_of(' ');
  if (first == std::string_view::npos) return std::nullopt;
  six = six.substr(first, six.find_last_not_of(' ') - first + 1);  // Slurm appends blanks
  std::size_t length = 0;
  const auto parsed = std::from_chars(six.data(), six.data() + six.size(), length);
  if (parsed.ec != std::errc() || parsed.ptr != six.data() + six.size() || length > MAX_ANSWER)
    return std::nullopt;
  return length;
}

std::optional<std::string> find_place(place& out) {
  namespace env = base::env;
  for (const char* variable : {"PMI_RANK", "PMI_SIZE", "PMI_FD"}) {
    if (!env::find(variable)) return std::string(variable) + " is not set";
  }
  try {
    out.size = env::parse_int("PMI_SIZE", *env::find("PMI_SIZE"), 1, MAX_RANKS);
    out.rank = env::parse_int("PMI_RANK", *env::find("PMI_RANK"), 0, out.size - 1);
    out.fd = env::parse_int("PMI_FD", *env::find("PMI_FD"), 0, 1 << 20);
  } catch (const argument_error& error) {
    return std::string(error.what());
  }
  if (!is_socket(out.fd)) {
    return "PMI_FD is " + std::to_string(out.fd) +
           ", which is no socket: something between the launcher and this program has closed it";
  }
  if (is_mpi_active()) {
    return std::string(
        "MPI is initialized in this process and speaks over PMI_FD: use mpi instead");
  }
  return std::nullopt;
}

place need_place(const char* backend) {
  place out{};
  if (const auto why = find_place(out)) throw backend_error(std::string(backend) + ": " + *why);
  return out;
}

fields connection::ask_line(const fields& command, std::string_view expected, bool patient) {
  send(to_line(command));
  const std::string line = read_line(patient ? deadline::never() : deadline::in(limit_));
  return check(parse_line(line), line, command, expected);
}

fields connection::ask_message(const fields& command, std::string_view expected, bool patient) {
  send(to_message(command));
  const std::string body = read_message(patient ? deadline::never() : deadline::in(limit_));
  return check(parse_message(body), body, command, expected);
}

bool connection::agree_on(int version, int subversion) {
  fields init;
  init.add("cmd", "init");
  init.add("pmi_version", std::to_string(version));
  init.add("pmi_subversion", std::to_string(subversion));
  send(to_line(init));
  const std::string line = read_line(deadline::in(limit_));
  const auto answer = parse_line(line);
  if (!answer || answer->find("cmd") != "response_to_init") {
    fail("the launcher answered " + quote(line) +
         " to init: what listens at PMI_FD does not speak PMI");
  }
  if (answer->find_int("rc", 0, 0) && answer->find_int("pmi_version", version, version))
    return true;
  fd_.release();
  return false;
}

void connection::part_line(const fields& last_word) noexcept {
  try {
    send(to_line(last_word));
    read_line(deadline::in(std::min(limit_, LAST_ANSWER)));
  } catch (const std::exception&) {
  }
}

void connection::part_message(const fields& last_word) noexcept {
  try {
    send(to_message(last_word));
    read_message(deadline::in(std::min(limit_, LAST_ANSWER)));
  } catch (const std::exception&) {
  }
}

void connection::fail(const std::string& why) const {
  throw backend_error(std::string(backend_) + ": " + why);
}

void connection::send(const std::string& bytes) const {
  const deadline until = deadline::in(limit_);
  std::size_t sent = 0;
  while (sent < bytes.size()) {
    // Whether the socket blocks is up to the launcher; that would have no end.
    const ssize_t n =
        ::send(fd_.get(), bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n >= 0) {
      sent += static_cast<std::size_t>(n);
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      if (!wait_for(fd_.get(), POLLOUT, until))
        fail("the launcher takes no command within " + std::to_string(limit_.count() / 1000) +
             " s");
    } else if (errno != EINTR) {
      fail("lost the launcher: " + errno_text(errno));
    }
  }
}

void connection::read_more(const deadline& until) {
  char bytes[4096];
  for (;;) {
    if (!wait_for(fd_.get(), POLLIN, until))
      fail("the launcher did not answer a command within " + std::to_string(limit_.count() / 1000) +
           " s");
    const ssize_t n = ::recv(fd_.get(), bytes, sizeof bytes, MSG_DONTWAIT);
    if (n > 0) {
      buffer_.append(bytes, static_cast<std::size_t>(n));
      return;
    }
    if (n < 0 && (errno == EINTR || errno == EAGAIN || errno == EWOULDBLOCK)) continue;
    fail(std::string("lost the launcher: ") + (n == 0 ? "it hung up" : errno_text(errno)));
  }
}

std::string connection::read_line(const deadline& until) {
  for (;;) {
    const std::size_t end = buffer_.find('\n');
    if (end != std::string::npos) {
      std::string line = buffer_.substr(0, end);
      buffer_.erase(0, end + 1);
      return line;
    }
    if (buffer_.size() > MAX_ANSWER)
      fail("the launcher's answer does not end: it begins with " + quote(buffer_));
    read_more(until);
  }
}

std::string connection::read_bytes(std::size_t size, const deadline& until) {
  while (buffer_.size() < size) read_more(until);
  std::string out = buffer_.substr(0, size);
  buffer_.erase(0, size);
  return out;
}

std::string connection::read_message(const deadline& until) {
  const std::string six = read_bytes(LENGTH_PLACES, until);
  const auto length = parse_length(six);
  if (!length)
    fail("the launcher's answer begins with " + quote(six) + ": expected a length in six places");
  return read_bytes(*length, until);
}

fields connection::check(std::optional<fields> answer, const std::string& raw,
                         const fields& command, std::string_view expected) const {
  const std::string asked = command.list().front().second;
  if (!answer || answer->find("cmd") != expected) {
    fail("the launcher answered " + quote(raw) + " to " + asked +
         ": expected cmd=" + std::string(expected));
  }
  if (answer->find("rc") && !answer->find_int("rc", 0, 0))
    fail("the launcher refused " + quote(to_line(command)) + ": " + quote(raw));
  return std::move(*answer);
}

}  // namespace lci::boot::pmi
