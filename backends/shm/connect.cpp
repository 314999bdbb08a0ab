#include "backends/shm/connect.hpp"

#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <string_view>
#include <system_error>

#include "lci/base/env.hpp"
#include "lci/base/passed_descriptors.hpp"
#include "lci/errors.hpp"

namespace lci::shm {
namespace {

constexpr std::string_view SCHEME = "shm1";

using hex_text = std::array<char, 2 * sizeof(fabric_id)>;

hex_text hex(const fabric_id& id) noexcept {
  static constexpr char DIGITS[] = "0123456789abcdef";
  hex_text out;
  char* to = out.data();
  for (const unsigned b : id) {
    *to++ = DIGITS[b >> 4];
    *to++ = DIGITS[b & 15];
  }
  return out;
}

bool unhex(std::string_view text, fabric_id& id) {
  if (text.size() != 2 * id.size()) return false;
  for (std::size_t i = 0; i < id.size(); ++i) {
    const char* at = text.data() + 2 * i;
    const auto got = std::from_chars(at, at + 2, id[i], 16);
    if (got.ec != std::errc{} || got.ptr != at + 2) return false;
  }
  return true;
}

// An abstract name: starts with a zero byte, lives as long as the socket, leaves nothing behind.
// Allocates no memory: a caller may be a post.
socklen_t fill(sockaddr_un& where, const fabric_id& id) noexcept {
  static constexpr std::string_view PREFIX = "lci-shm-";
  const hex_text name = hex(id);
  where.sun_family = AF_UNIX;
  char* const to = where.sun_path + 1;
  std::memcpy(to, PREFIX.data(), PREFIX.size());
  std::memcpy(to + PREFIX.size(), name.data(), name.size());
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + PREFIX.size() + name.size());
}

// 0: not to be seen.
std::uint64_t namespace_id(const char* kind) {
  struct stat ns {};
  return stat((std::string("/proc/self/ns/") + kind).c_str(), &ns) == 0 ? ns.st_ino : 0;
}

surroundings look_around() {
  surroundings out;
  std::ifstream boot("/proc/sys/kernel/random/boot_id");
  // Without /proc there is nothing to compare; "-" matches every host and connect() will tell.
  if (!(boot >> out.host)) out.host = "-";
  out.network_ns = namespace_id("net");
  return out;
}

base::descriptor make_socket() noexcept {
  return base::descriptor(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
}

}  // namespace

std::string address::text() const {
  const hex_text name = hex(id);
  return std::string(SCHEME) + " " + std::string(name.data(), name.size()) + " " + host + " " +
         std::to_string(network_ns);
}

// By hand: a stream that gets no memory would say that the text is wrong. Throws std::bad_alloc.
std::optional<address> address::parse(const std::string& text) {
  std::array<std::string_view, 4> words;
  std::string_view rest = text;
  for (std::string_view& word : words) {
    word = rest.substr(0, rest.find(' '));
    rest.remove_prefix(std::min(rest.size(), word.size() + 1));
    if (word.empty()) return std::nullopt;
  }
  address out;
  const char* const end = words[3].data() + words[3].size();
  const auto number = std::from_chars(words[3].data(), end, out.network_ns);
  if (words[0] != SCHEME || !unhex(words[1], out.id) || number.ec != std::errc{} ||
      number.ptr != end) {
    return std::nullopt;
  }
  out.host = words[2];
  return out;
}

address address::make() {
  address out;
  static_cast<surroundings&>(out) = look_around();
  if (getrandom(out.id.data(), out.id.size(), 0) != static_cast<ssize_t>(out.id.size())) {
    throw backend_error(std::string("shm: getrandom of 16 bytes: ") + std::strerror(errno));
  }
  return out;
}

std::string address::why_unreachable(const address& here) const {
  if (host != here.host && host != "-" && here.host != "-") return "it runs on another host";
  if (network_ns != here.network_ns && network_ns != 0 && here.network_ns != 0) {
    return "it lives in another network namespace (" + std::to_string(network_ns) + ", ours is " +
           std::to_string(here.network_ns) +
           "), and the abstract sockets that first contact needs do not cross these: start the "
           "containers with a common one";
  }
  return {};
}

std::string place_here() {
  constexpr std::size_t MOST = 64;
  const surroundings here = look_around();
  if (const auto wanted = base::env::find("LCI_HOST_ID")) {
    const bool is_sound =
        wanted->size() <= MOST &&
        std::all_of(wanted->begin(), wanted->end(), [](char c) { return c > ' ' && c < 127; });
    if (is_sound) return here.host + "." + std::string(*wanted);
    throw argument_error("LCI_HOST_ID is \"" + std::string(*wanted) + "\": expected at most " +
                         std::to_string(MOST) + " printable characters without blanks");
  }
  return here.host + "." + std::to_string(here.network_ns) + "." +
         std::to_string(namespace_id("user")) + "." + std::to_string(geteuid());
}

decoded_hello decode_hello(std::span<const std::byte> record) {
  decoded_hello out;
  if (record.size() < offsetof(hello, rank)) {
    out.why = "a record of " + std::to_string(record.size()) + " bytes is too short for a hello";
    return out;
  }
  std::memcpy(&out.what, record.data(), std::min(record.size(), sizeof(hello)));
  if (out.what.magic != hello::MAGIC) {
    out.why = "its first record is not a hello";
  } else if (out.what.version != WIRE_VERSION) {
    out.why = "it speaks version " + std::to_string(out.what.version) +
              " of the shared-memory format, this process version " + std::to_string(WIRE_VERSION);
  } else if (record.size() != sizeof(hello) || out.what.bytes != sizeof(hello)) {
    out.why = "its hello has " + std::to_string(record.size()) + " bytes instead of " +
              std::to_string(sizeof(hello));
  }
  return out;
}

bool is_bye(std::span<const std::byte> record) noexcept {
  bye what;
  if (record.size() != sizeof(what)) return false;
  std::memcpy(&what, record.data(), sizeof(what));
  return what.magic == bye::MAGIC;
}

std::string_view words_of_refusal(std::span<const std::byte> record) noexcept {
  if (record.size() != sizeof(refusal)) return {};
  std::uint32_t magic = 0, size = 0;
  std::memcpy(&magic, record.data() + offsetof(refusal, magic), sizeof(magic));
  std::memcpy(&size, record.data() + offsetof(refusal, size), sizeof(size));
  if (magic != refusal::MAGIC || size > refusal::MOST) return {};
  return {reinterpret_cast<const char*>(record.data()) + offsetof(refusal, why), size};
}

void send_refusal(int fd, std::string_view why) noexcept {
  refusal said;
  said.size = static_cast<std::uint32_t>(std::min(why.size(), refusal::MOST));
  std::memcpy(said.why, why.data(), said.size);
  send_record(fd, std::as_bytes(std::span(&said, 1)), -1);
}

// Every process of a job may connect before we look: the kernel cuts the queue to its own limit.
base::descriptor listen_at(const fabric_id& id) {
  base::descriptor s = make_socket();
  sockaddr_un where{};
  const socklen_t length = fill(where, id);
  if (!s || bind(s.get(), reinterpret_cast<sockaddr*>(&where), length) != 0 ||
      listen(s.get(), BACKLOG) != 0) {
    throw backend_error(std::string("shm: an abstract unix socket cannot be used: ") +
                        std::strerror(errno));
  }
  return s;
}

int connect_to(const fabric_id& id, base::descriptor& out) noexcept {
  out = make_socket();
  if (!out) return errno;
  sockaddr_un where{};
  const socklen_t length = fill(where, id);
  if (connect(out.get(), reinterpret_cast<sockaddr*>(&where), length) == 0) return 0;
  const int error = errno;
  out.reset();
  return error;
}

credentials peer_of(int fd) noexcept {
  ucred got{};
  socklen_t size = sizeof(got);
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &got, &size) != 0) return {};
  return {got.uid, got.pid};
}

base::descriptor watch_end(pid_t process) noexcept {
  return base::descriptor(static_cast<int>(syscall(SYS_pidfd_open, process, 0)));
}

bool has_ended(const base::descriptor& process) noexcept {
  pollfd one{process.get(), POLLIN, 0};
  return poll(&one, 1, 0) == 1 && (one.revents & POLLIN) != 0;
}

int send_record(int fd, std::span<const std::byte> record, int passed_fd) noexcept {
  const std::span<const int> passed(&passed_fd, passed_fd >= 0 ? 1 : 0);
  const ssize_t sent = base::send_with_descriptors(fd, record, passed, MSG_DONTWAIT);
  if (sent < 0) return errno;
  return static_cast<std::size_t>(sent) == record.size() ? 0 : EMSGSIZE;
}

received receive_record(int fd) noexcept {
  received out;
  base::received_descriptors got = base::receive_with_descriptors(fd, out.bytes, 1, MSG_DONTWAIT);
  if (got.bytes < 0) {
    out.error = errno;
    return out;
  }
  out.passed = std::move(got.passed[0]);
  out.size = static_cast<std::size_t>(got.bytes);
  return out;
}

}  // namespace lci::shm
