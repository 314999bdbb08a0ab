#include "lci/transport/memory_key.hpp"

#include <unistd.h>

#include <chrono>
#include <cstring>
#include <mutex>

#include "lci/errors.hpp"

#if LCI_HAVE_SODIUM
#include <sodium.h>
#endif

namespace lci::transports {

namespace {

constexpr std::string_view START = "lcik1-";

class byte_writer {
 public:
  explicit byte_writer(unsigned char* to) noexcept : at_(to) {}
  void put(std::uint64_t value, std::size_t bytes) noexcept {
    for (std::size_t i = 0; i < bytes; ++i) *at_++ = static_cast<unsigned char>(value >> (8 * i));
  }

 private:
  unsigned char* at_;
};

class byte_reader {
 public:
  explicit byte_reader(const unsigned char* from) noexcept : at_(from) {}
  std::uint64_t get(std::size_t bytes) noexcept {
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < bytes; ++i) value |= std::uint64_t{*at_++} << (8 * i);
    return value;
  }

 private:
  const unsigned char* at_;
};

using key_bytes = std::array<unsigned char, memory_key::BYTES>;
constexpr std::size_t SEALED_BYTES = memory_key::BYTES - memory_key::CODE_BYTES;

// Only the lower-case form is read: one key has one text.
int digit_of(char c) noexcept {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

bool bytes_of(std::string_view text, key_bytes& bytes) noexcept {
  if (text.size() != START.size() + 2 * bytes.size() || !text.starts_with(START)) return false;
  text.remove_prefix(START.size());
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const int high = digit_of(text[2 * i]), low = digit_of(text[2 * i + 1]);
    if (high < 0 || low < 0) return false;
    bytes[i] = static_cast<unsigned char>(high << 4 | low);
  }
  return true;
}

std::string text_of(const key_bytes& bytes) {
  std::string text(START);
  for (const unsigned char byte : bytes) {
    text += "0123456789abcdef"[byte >> 4];
    text += "0123456789abcdef"[byte & 15];
  }
  return text;
}

#if LCI_HAVE_SODIUM

struct process_secret {
  ::pid_t pid = -1;
  std::array<unsigned char, memory_key::OWNER_BYTES> name{};
  std::array<unsigned char, 32> secret{};
};

struct secret_store {
  std::mutex mutex;  // guards the secret while it is made
  process_secret secret;
};

// A forked child gets a secret of its own: it has none of the registrations of its parent.
process_secret own_secret() {
  static secret_store* const store = new secret_store;
  const std::lock_guard lock(store->mutex);
  process_secret& of_process = store->secret;
  if (of_process.pid != ::getpid()) {
    if (::sodium_init() < 0) throw backend_error("transport: libsodium cannot be initialized");
    ::randombytes_buf(of_process.name.data(), of_process.name.size());
    ::randombytes_buf(of_process.secret.data(), of_process.secret.size());
    of_process.pid = ::getpid();
  }
  return of_process;
}

void write_code(key_bytes& bytes, const process_secret& by) noexcept {
  ::crypto_generichash(bytes.data() + SEALED_BYTES, memory_key::CODE_BYTES, bytes.data(),
                       SEALED_BYTES, by.secret.data(), by.secret.size());
}

#endif

}  // namespace

#if LCI_HAVE_SODIUM

std::string write_key(memory_key key) {
  const process_secret by = own_secret();
  key_bytes bytes{};
  std::memcpy(bytes.data(), by.name.data(), by.name.size());
  byte_writer out(bytes.data() + memory_key::OWNER_BYTES);
  out.put(key.slot, 4);
  out.put(key.generation, 4);
  out.put(key.number, 8);
  out.put(key.address, 8);
  out.put(key.size, 8);
  out.put(key.ends_ms, 8);
  out.put(key.rights, 1);
  write_code(bytes, by);
  return text_of(bytes);
}

bool is_own(std::string_view text) noexcept {
  key_bytes given{};
  if (!bytes_of(text, given)) return false;
  try {
    const process_secret by = own_secret();
    key_bytes expected = given;
    write_code(expected, by);
    return ::sodium_memcmp(given.data(), expected.data(), given.size()) == 0;
  } catch (const backend_error&) {
    return false;
  }
}

#else

std::string write_key(memory_key) {
  throw backend_error("transport: keys of memory need libsodium, which this build does not have");
}
bool is_own(std::string_view) noexcept { return false; }

#endif

std::optional<memory_key> read_key(std::string_view text) {
  key_bytes bytes{};
  if (!bytes_of(text, bytes)) return std::nullopt;
  memory_key key;
  std::memcpy(key.owner.data(), bytes.data(), key.owner.size());
  byte_reader in(bytes.data() + memory_key::OWNER_BYTES);
  key.slot = static_cast<std::uint32_t>(in.get(4));
  key.generation = static_cast<std::uint32_t>(in.get(4));
  key.number = in.get(8);
  key.address = in.get(8);
  key.size = in.get(8);
  key.ends_ms = in.get(8);
  key.rights = static_cast<std::uint8_t>(in.get(1));
  return key;
}

std::uint64_t clock_ms() noexcept {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::milliseconds>(now).count());
}

}  // namespace lci::transports
