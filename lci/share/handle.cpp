#include "lci/share/handle.hpp"

#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "lci/base/descriptor.hpp"

namespace lci::share {
namespace {

constexpr std::size_t SUMMED_FROM = offsetof(handle, checksum) + sizeof(std::uint64_t);

// Reads errno. What failed for want of room says nothing of the file, or of its process.
void need_room(const char* path) {
  const int error = errno;
  if (!is_no_room(error)) return;
  throw buffer_error(buffer_fault::no_room,
                     std::string(path) + " cannot be inspected: " + std::strerror(error));
}

// Small files of the kernel; empty where there is none. Throws buffer_error: no_room.
std::string read_file(const char* path) {
  std::string text(1024, '\0');
  const base::descriptor fd(open(path, O_RDONLY | O_CLOEXEC));
  const ssize_t got = fd ? read(fd.get(), text.data(), text.size()) : -1;
  if (got < 0) need_room(path);
  text.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  return text;
}

// "41c4f6f0-5dac-..." as 16 bytes.
std::array<std::uint8_t, 16> boot_id() {
  std::array<std::uint8_t, 16> id{};
  std::size_t digits = 0;
  for (const char c : read_file("/proc/sys/kernel/random/boot_id")) {
    const bool is_digit = c >= '0' && c <= '9';
    if (!is_digit && !(c >= 'a' && c <= 'f')) continue;
    const int value = is_digit ? c - '0' : c - 'a' + 10;
    if (digits < 32) id[digits / 2] = static_cast<std::uint8_t>(id[digits / 2] * 16 + value);
    ++digits;
  }
  return id;
}

bool is_known(handle_way way) { return way == handle_way::host_file || way == handle_way::gpu; }

// Whether the fields fit each other; a checksum that is right says nothing about that.
bool is_sound(const handle& h) {
  const bool is_range = h.size != 0 && h.memory_size >= h.size &&
                        h.offset <= h.memory_size - h.size && h.memory_size <= SIZE_MAX / 2;
  const bool is_named = h.pid != 0 && h.pid <= INT32_MAX && h.start_time != 0 && h.serial != 0;
  const bool has_fds = h.page_fd >= 0 && h.memory_fd >= -1;
  const bool has_memory = h.way != handle_way::host_file || h.memory_fd >= 0;
  return is_range && is_named && has_fds && has_memory && is_known(h.way);
}

}  // namespace

std::string handle::encode() const {
  handle made = *this;
  const auto* const bytes = reinterpret_cast<const char*>(&made);
  made.checksum = checksum_of(bytes + SUMMED_FROM, BYTES - SUMMED_FROM);
  return std::string(bytes, BYTES);
}

handle handle::decode(std::string_view bytes) {
  if (bytes.size() != BYTES) {
    throw buffer_error(buffer_fault::malformed, "a buffer's handle has " + std::to_string(BYTES) +
                                                    " bytes, this has " +
                                                    std::to_string(bytes.size()));
  }
  handle got;
  const auto magic = got.magic;
  std::memcpy(&got, bytes.data(), BYTES);
  if (got.magic != magic) {
    throw buffer_error(buffer_fault::malformed,
                       "this is no handle of a buffer, or one of another version of the library");
  }
  if (got.checksum != checksum_of(bytes.data() + SUMMED_FROM, BYTES - SUMMED_FROM))
    throw buffer_error(buffer_fault::malformed, "the handle of a buffer is damaged");
  if (!is_sound(got)) {
    throw buffer_error(buffer_fault::malformed,
                       "the handle of a buffer has impossible fields: a range outside its "
                       "memory, no process, or no descriptor");
  }
  return got;
}

std::uint64_t checksum_of(const void* bytes, std::size_t size) noexcept {
  const auto* const at = static_cast<const unsigned char*>(bytes);
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < size; i += sizeof(std::uint64_t)) {
    std::uint64_t word = 0;
    std::memcpy(&word, at + i, size - i < sizeof(word) ? size - i : sizeof(word));
    sum = (sum ^ word) * 0x9e3779b97f4a7c15;  // odd, so that no bit of a word is lost
    sum ^= sum >> 32;
  }
  return sum;
}

process_identity this_process() {
  process_identity me;
  me.boot = boot_id();
  constexpr const char* SPACE = "/proc/self/ns/pid";
  struct stat about {};
  if (stat(SPACE, &about) == 0)
    me.process_space = about.st_ino;
  else
    need_room(SPACE);
  me.pid = static_cast<std::uint32_t>(getpid());
  me.user = geteuid();
  me.start_time = start_time_of(getpid());
  return me;
}

// The 22nd field; the second is the name in parentheses, which may hold anything.
std::uint64_t start_time_of(pid_t pid) {
  const std::string text = read_file(("/proc/" + std::to_string(pid) + "/stat").c_str());
  std::size_t at = text.rfind(')');
  if (at == std::string::npos) return 0;
  for (int field = 2; field < 22; ++field) {
    at = text.find(' ', at + 1);
    if (at == std::string::npos) return 0;
    // A process that has ended and was not waited for has no memory any more.
    if (field == 2 && (text[at + 1] == 'Z' || text[at + 1] == 'X')) return 0;
  }
  std::uint64_t ticks = 0;
  for (++at; at < text.size() && text[at] >= '0' && text[at] <= '9'; ++at)
    ticks = ticks * 10 + static_cast<std::uint64_t>(text[at] - '0');
  return ticks;
}

void fill_random(void* to, std::size_t size) {
  auto* at = static_cast<unsigned char*>(to);
  while (size != 0) {
    const ssize_t got = getrandom(at, size, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) throw backend_error(std::string("getrandom failed: ") + std::strerror(errno));
    at += got;
    size -= static_cast<std::size_t>(got);
  }
}

bool is_no_room(int error) noexcept {
  return error == EMFILE || error == ENFILE || error == ENOMEM;
}

std::string owner_text(const handle& h) { return "pid " + std::to_string(h.pid); }

}  // namespace lci::share
