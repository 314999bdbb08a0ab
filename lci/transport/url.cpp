#include "lci/transport/url.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <map>
#include <system_error>

#include "lci/boot/tcp_address.hpp"
#include "lci/errors.hpp"

namespace lci::transports {

namespace {

constexpr std::string_view SCHEME = "lci://";

[[noreturn]] void refuse(const std::string& why) { throw argument_error("transport URL: " + why); }

bool is_hex(std::string_view text) noexcept {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

template <class T>
T number_in(std::string_view text, const char* what) {
  T out{};
  const auto got = std::from_chars(text.data(), text.data() + text.size(), out);
  if (text.empty() || got.ec != std::errc{} || got.ptr != text.data() + text.size())
    refuse(std::string(what) + " is no number");
  return out;
}

bool is_name(std::string_view text) noexcept {
  return !text.empty() && text.size() <= 16 && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
  });
}

std::string_view take_to(std::string_view& text, char end) {
  const std::size_t at = std::min(text.find(end), text.size());
  const std::string_view out = text.substr(0, at);
  text.remove_prefix(std::min(at + 1, text.size()));
  return out;
}

// "ADDRESS:PORT", "[ADDRESS]:PORT"
void read_place(std::string_view place, url& out) {
  const bool is_bracketed = place.substr(0, 1) == "[";
  const std::size_t end = is_bracketed ? place.find(']') : place.rfind(':');
  if (end == std::string_view::npos) refuse("there is no port");
  out.address = is_bracketed ? place.substr(1, end - 1) : place.substr(0, end);
  std::string_view port = place.substr(end + (is_bracketed ? 1 : 0));
  if (port.substr(0, 1) != ":") refuse("there is no port");
  out.port = number_in<int>(port.substr(1), "the port");
  if (out.port < 1 || out.port > 65535) refuse("the port is not in 1..65535");
  unsigned char bytes[16];
  if (::inet_pton(is_bracketed ? AF_INET6 : AF_INET, out.address.c_str(), bytes) != 1)
    refuse("the address is not numeric");
}

std::map<std::string_view, std::string_view> read_query(std::string_view query) {
  std::map<std::string_view, std::string_view> out;
  while (!query.empty()) {
    std::string_view rest = take_to(query, '&');
    const std::string_view name = take_to(rest, '=');
    if (!out.emplace(name, rest).second) refuse("a part is given twice");
  }
  return out;
}

}  // namespace

std::string join_names(const std::vector<std::string>& names) {
  std::string out;
  for (const std::string& one : names) out += (out.empty() ? "" : ",") + one;
  return out;
}

std::vector<std::string> split_names(std::string_view text) {
  std::vector<std::string> out;
  while (!text.empty()) {
    const std::string_view name = take_to(text, ',');
    if (!is_name(name) || out.size() == 16) refuse("the list of providers is malformed");
    out.emplace_back(name);
  }
  return out;
}

std::vector<std::string> common_names(const std::vector<std::string>& mine,
                                      const std::vector<std::string>& theirs) {
  if (mine.empty()) return theirs;
  if (theirs.empty()) return mine;
  std::vector<std::string> out;
  for (const std::string& one : mine)
    if (std::find(theirs.begin(), theirs.end(), one) != theirs.end()) out.push_back(one);
  if (out.empty())
    throw backend_error("the two ends allow no network in common: " + join_names(mine) + " here, " +
                        join_names(theirs) + " there");
  return out;
}

std::string text_of(const url& one) {
  const bool is_v6 = one.address.find(':') != std::string::npos;
  std::string out = std::string(SCHEME) + (is_v6 ? "[" : "") + one.address + (is_v6 ? "]" : "") +
                    ":" + std::to_string(one.port) + "/?v=" + std::to_string(URL_VERSION) +
                    "&id=" + one.id;
  if (!one.key.empty()) out += "&k=" + one.key;
  if (!one.providers.empty()) out += "&p=" + join_names(one.providers);
  if (one.until != 0) out += "&until=" + std::to_string(one.until);
  return out;
}

url parse_url(std::string_view text) {
  if (text.size() > MOST_URL) refuse("it has more than " + std::to_string(MOST_URL) + " bytes");
  if (text.substr(0, SCHEME.size()) != SCHEME) refuse("it does not begin with lci://");
  text.remove_prefix(SCHEME.size());
  url out;
  read_place(take_to(text, '/'), out);
  if (text.substr(0, 1) != "?") refuse("it has no parts after the address");
  std::map<std::string_view, std::string_view> parts = read_query(text.substr(1));
  if (number_in<int>(parts["v"], "the version") != URL_VERSION)
    refuse("its version is not " + std::to_string(URL_VERSION));
  out.id = parts["id"];
  if (out.id.size() != ID_DIGITS || !is_hex(out.id)) refuse("the id is malformed");
  out.key = parts["k"];
  if (!out.key.empty() && (out.key.size() != 64 || !is_hex(out.key)))
    refuse("the key is malformed");
  out.providers = split_names(parts["p"]);
  if (!parts["until"].empty()) out.until = number_in<std::uint64_t>(parts["until"], "the end");
  return out;
}

socket_address address_of(const std::string& text, int port) {
  socket_address out;
  sockaddr_in v4{};
  sockaddr_in6 v6{};
  if (::inet_pton(AF_INET, text.c_str(), &v4.sin_addr) == 1) {
    v4.sin_family = AF_INET;
    v4.sin_port = htons(static_cast<std::uint16_t>(port));
    out.size = sizeof v4;
    std::copy_n(reinterpret_cast<const char*>(&v4), sizeof v4, reinterpret_cast<char*>(&out.bytes));
  } else if (::inet_pton(AF_INET6, text.c_str(), &v6.sin6_addr) == 1) {
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(static_cast<std::uint16_t>(port));
    out.size = sizeof v6;
    std::copy_n(reinterpret_cast<const char*>(&v6), sizeof v6, reinterpret_cast<char*>(&out.bytes));
  } else {
    throw argument_error("transport: the address \"" + text + "\" is not a numeric address");
  }
  if (boot::is_wildcard(reinterpret_cast<const sockaddr*>(&out.bytes)))
    throw argument_error("transport: " + text +
                         " is every address of this machine: give the one that peers can reach");
  return out;
}

}  // namespace lci::transports
