// Addresses of fabrics as text, and what tells fabrics and hosts apart. Callers: backends, when a
// network is opened. Threads: pure functions.
#pragma once

#include <sys/random.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <functional>
#include <string>
#include <string_view>

#include "lci/errors.hpp"

namespace lci::net::connected {

// prefix, then the bytes in hexadecimal.
inline std::string text_of(std::string_view prefix, const void* bytes, std::size_t size) {
  constexpr char DIGITS[] = "0123456789abcdef";
  std::string out(prefix);
  const auto* const from = static_cast<const unsigned char*>(bytes);
  for (std::size_t i = 0; i < size; ++i) {
    out += DIGITS[from[i] >> 4];
    out += DIGITS[from[i] & 15];
  }
  return out;
}
// The bytes of such a text, at most `most`; answers how many. 0: it is none.
inline std::size_t bytes_of(std::string_view prefix, std::string_view text, void* out,
                            std::size_t most) noexcept {
  if (!text.starts_with(prefix)) return 0;
  text.remove_prefix(prefix.size());
  const std::size_t size = text.size() / 2;
  if (text.size() % 2 != 0 || size > most) return 0;
  const auto digit = [](char c) {
    if (c >= '0' && c <= '9') return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
  };
  for (std::size_t i = 0; i < size; ++i) {
    const int high = digit(text[2 * i]);
    const int low = digit(text[2 * i + 1]);
    if (high < 0 || low < 0) return 0;
    static_cast<unsigned char*>(out)[i] = static_cast<unsigned char>(high << 4 | low);
  }
  return size;
}

// Which fabric of a rank is meant. network: for messages.
inline std::uint64_t random_id(const char* network) {
  std::uint64_t out = 0;
  if (getrandom(&out, sizeof(out), 0) != sizeof(out))
    throw backend_error(std::string(network) + ": getrandom of 8 bytes: " + std::strerror(errno));
  return out;
}
// The same on one boot of one machine in one namespace of that kind ("pid", "net"); 0: not known.
inline std::uint64_t host_id(const char* kind_of_namespace) {
  std::ifstream boot("/proc/sys/kernel/random/boot_id");
  std::string text;
  std::getline(boot, text);
  struct stat about {};
  if (stat((std::string("/proc/self/ns/") + kind_of_namespace).c_str(), &about) == 0)
    text += std::to_string(about.st_ino);
  return text.empty() ? 0 : std::hash<std::string>()(text);
}

}  // namespace lci::net::connected
