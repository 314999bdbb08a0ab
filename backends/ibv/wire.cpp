#include "backends/ibv/wire.hpp"

namespace lci::ibv {
namespace {

constexpr std::string_view PREFIX = "ibv1:";
constexpr char DIGITS[] = "0123456789abcdef";

int value_of(char c) noexcept {
  if (c >= '0' && c <= '9') return c - '0';
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

}  // namespace

std::string fabric_address::text() const {
  std::string out(PREFIX);
  const auto* bytes = reinterpret_cast<const unsigned char*>(this);
  for (std::size_t i = 0; i < sizeof(*this); ++i) {
    out += DIGITS[bytes[i] >> 4];
    out += DIGITS[bytes[i] & 15];
  }
  return out;
}

bool fabric_address::parse(std::string_view text, fabric_address& out) noexcept {
  if (!text.starts_with(PREFIX)) return false;
  text.remove_prefix(PREFIX.size());
  if (text.size() != 2 * sizeof(out)) return false;
  unsigned char bytes[sizeof(out)];
  for (std::size_t i = 0; i < sizeof(out); ++i) {
    const int high = value_of(text[2 * i]);
    const int low = value_of(text[2 * i + 1]);
    if (high < 0 || low < 0) return false;
    bytes[i] = static_cast<unsigned char>(high << 4 | low);
  }
  std::memcpy(&out, bytes, sizeof(out));
  return out.qpn != 0;
}

}  // namespace lci::ibv
