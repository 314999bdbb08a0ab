// The text by which one process invites another:
//
//   lci://ADDRESS:PORT/?v=1&id=HUB&k=KEY&p=PROVIDERS&until=SECONDS
//
// id: of the hub that listens, 32 hexadecimal digits. k: the secret; absent where both ends were
// given one by other means. p: providers that the hub allows, by commas; absent: all. until: when
// it ends, seconds since 1970, for people: the hub decides by its own clock. Callers: hub. Threads:
// pure functions. Always true: what parse() answers, text_of() writes again; anything else is
// refused with a sentence that does not repeat the secret.
#pragma once

#include <sys/socket.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lci::transports {

inline constexpr int URL_VERSION = 1;
inline constexpr std::size_t MOST_URL = 1024;  // bytes
inline constexpr std::size_t ID_DIGITS = 32;   // of a hub

struct url {
  std::string address;  // a number: "127.0.0.1", "::1"
  int port = 0;
  std::string id;
  std::string key;
  std::vector<std::string> providers;
  std::uint64_t until = 0;  // 0: without end
};

std::string text_of(const url& one);
// Throws argument_error.
url parse_url(std::string_view text);
// Of names that a list may hold: "shm,ofi".
std::string join_names(const std::vector<std::string>& names);
std::vector<std::string> split_names(std::string_view text);
// What both lists allow; an empty one allows all. Throws backend_error if that is nothing.
std::vector<std::string> common_names(const std::vector<std::string>& mine,
                                      const std::vector<std::string>& theirs);

struct socket_address {
  sockaddr_storage bytes{};
  socklen_t size = 0;
};
// Throws argument_error for text that is not a numeric address, and for a wildcard: no peer could
// call it.
socket_address address_of(const std::string& text, int port);

}  // namespace lci::transports
