#include "lci/boot/kv_wire.hpp"

#include <algorithm>

namespace lci::boot::kv {

namespace {

constexpr std::string_view MAGIC = "LCIB";

// Byte by byte: hosts of a job may differ in byte order.
template <class Unsigned>
void append(std::string& out, Unsigned number) {
  for (std::size_t i = 0; i < sizeof number; ++i)
    out += static_cast<char>(static_cast<unsigned char>(number >> (8 * i)));
}

// Reads from the front of a body; every step checks what is left.
class reader {
 public:
  explicit reader(std::string_view bytes) noexcept : bytes_(bytes) {}
  template <class Unsigned>
  bool take(Unsigned& number) noexcept {
    if (bytes_.size() < sizeof number) return false;
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < sizeof number; ++i)
      sum |= static_cast<std::uint64_t>(static_cast<unsigned char>(bytes_[i])) << (8 * i);
    number = static_cast<Unsigned>(sum);
    bytes_.remove_prefix(sizeof number);
    return true;
  }
  bool take(std::string_view& text, std::size_t size) noexcept {
    if (bytes_.size() < size) return false;
    text = bytes_.substr(0, size);
    bytes_.remove_prefix(size);
    return true;
  }
  std::string_view rest() const noexcept { return bytes_; }

 private:
  std::string_view bytes_;
};

// The most that a frame of this type may carry; nothing for an unknown type. It is known before the
// body arrives, so a length from a stranger never makes us wait for, or store, more.
std::optional<std::size_t> limit_of(std::uint8_t type) noexcept {
  switch (static_cast<frame_type>(type)) {
    case frame_type::hello:
      return 16;
    case frame_type::welcome:
      return 8;
    case frame_type::arrive:
    case frame_type::released:
      return 4;
    case frame_type::put:
    case frame_type::value:
      return MAX_BODY;
    case frame_type::fail:
      return MAX_TEXT;
    case frame_type::leave:
      return 0;
    case frame_type::gone:
      return 4 + MAX_TEXT;
    case frame_type::left:
      return 4 * MAX_LEFT;
    case frame_type::shared:
      return 8;
  }
  return std::nullopt;
}

void append_header(std::string& out, frame_type type, std::size_t body) {
  append(out, static_cast<std::uint32_t>(body));
  append(out, static_cast<std::uint8_t>(type));
  out.append(3, '\0');
}

bool take_key_and_value(reader& in, value_body& out) noexcept {
  std::uint16_t key_size = 0;
  if (!in.take(key_size) || key_size == 0 || key_size > MAX_KEY) return false;
  if (!in.take(out.key, key_size)) return false;
  out.value = in.rest();
  return out.value.size() <= MAX_VALUE;
}

// Sizes allocate memory; a nonsensical one must not.
bool valid_ranks(std::uint32_t rank, std::uint32_t size) noexcept {
  return size >= 1 && size <= static_cast<std::uint32_t>(MAX_RANKS) && rank < size;
}

}  // namespace

void encode_hello(std::string& out, int rank, int size) {
  append_header(out, frame_type::hello, 16);
  out += MAGIC;
  append(out, VERSION);
  append(out, std::uint16_t{0});
  append(out, static_cast<std::uint32_t>(rank));
  append(out, static_cast<std::uint32_t>(size));
}

void encode_welcome(std::string& out, int rank, int size) {
  append_header(out, frame_type::welcome, 8);
  append(out, static_cast<std::uint32_t>(rank));
  append(out, static_cast<std::uint32_t>(size));
}

void encode_put(std::string& out, std::string_view key, std::string_view value) {
  append_header(out, frame_type::put, 2 + key.size() + value.size());
  append(out, static_cast<std::uint16_t>(key.size()));
  out += key;
  out += value;
}

void encode_arrive(std::string& out, std::uint32_t round) {
  append_header(out, frame_type::arrive, 4);
  append(out, round);
}

void encode_value(std::string& out, int rank, std::string_view key, std::string_view value) {
  append_header(out, frame_type::value, 6 + key.size() + value.size());
  append(out, static_cast<std::uint32_t>(rank));
  append(out, static_cast<std::uint16_t>(key.size()));
  out += key;
  out += value;
}

void encode_released(std::string& out, std::uint32_t round) {
  append_header(out, frame_type::released, 4);
  append(out, round);
}

void encode_fail(std::string& out, std::string_view text) {
  text = text.substr(0, MAX_TEXT);
  append_header(out, frame_type::fail, text.size());
  out += text;
}

void encode_leave(std::string& out) { append_header(out, frame_type::leave, 0); }

void encode_ended(std::string& out, int rank, std::string_view why) {
  why = why.substr(0, MAX_TEXT);
  append_header(out, frame_type::gone, 4 + why.size());
  append(out, static_cast<std::uint32_t>(rank));
  out += why;
}

void encode_left(std::string& out, std::span<const int> ranks) {
  while (!ranks.empty()) {
    const std::span<const int> now = ranks.first(std::min(ranks.size(), MAX_LEFT));
    append_header(out, frame_type::left, 4 * now.size());
    for (const int rank : now) append(out, static_cast<std::uint32_t>(rank));
    ranks = ranks.subspan(now.size());
  }
}

void encode_shared(std::string& out, std::uint64_t size) {
  append_header(out, frame_type::shared, 8);
  append(out, size);
}

std::optional<hello_body> decode_hello(std::string_view body) noexcept {
  reader in(body);
  std::string_view magic;
  std::uint16_t version = 0, zero = 0;
  std::uint32_t rank = 0, size = 0;
  const bool whole = in.take(magic, MAGIC.size()) && in.take(version) && in.take(zero) &&
                     in.take(rank) && in.take(size) && in.rest().empty();
  if (!whole || magic != MAGIC || version != VERSION || zero != 0 || !valid_ranks(rank, size))
    return std::nullopt;
  return hello_body{static_cast<int>(rank), static_cast<int>(size)};
}

std::optional<hello_body> decode_welcome(std::string_view body) noexcept {
  reader in(body);
  std::uint32_t rank = 0, size = 0;
  if (!in.take(rank) || !in.take(size) || !in.rest().empty() || !valid_ranks(rank, size))
    return std::nullopt;
  return hello_body{static_cast<int>(rank), static_cast<int>(size)};
}

std::optional<value_body> decode_put(std::string_view body) noexcept {
  reader in(body);
  value_body out{};
  if (!take_key_and_value(in, out)) return std::nullopt;
  return out;
}

std::optional<value_body> decode_value(std::string_view body) noexcept {
  reader in(body);
  value_body out{};
  std::uint32_t rank = 0;
  if (!in.take(rank) || rank >= static_cast<std::uint32_t>(MAX_RANKS)) return std::nullopt;
  if (!take_key_and_value(in, out)) return std::nullopt;
  out.rank = static_cast<int>(rank);
  return out;
}

std::optional<std::uint32_t> decode_round(std::string_view body) noexcept {
  reader in(body);
  std::uint32_t round = 0;
  if (!in.take(round) || !in.rest().empty()) return std::nullopt;
  return round;
}

std::optional<std::uint64_t> decode_shared(std::string_view body) noexcept {
  reader in(body);
  std::uint64_t size = 0;
  if (!in.take(size) || !in.rest().empty()) return std::nullopt;
  return size;
}

std::optional<ended_body> decode_ended(std::string_view body) noexcept {
  reader in(body);
  std::uint32_t rank = 0;
  if (!in.take(rank) || rank >= static_cast<std::uint32_t>(MAX_RANKS)) return std::nullopt;
  return ended_body{static_cast<int>(rank), in.rest()};
}

std::optional<std::vector<int>> decode_left(std::string_view body) {
  reader in(body);
  std::vector<int> ranks;
  std::uint32_t rank = 0;
  while (in.take(rank)) {
    if (rank >= static_cast<std::uint32_t>(MAX_RANKS)) return std::nullopt;
    ranks.push_back(static_cast<int>(rank));
  }
  if (ranks.empty() || !in.rest().empty()) return std::nullopt;
  return ranks;
}

// Drops what was handed out first, so that the buffer holds at most one frame and the bytes just
// read.
void splitter::make_room(std::size_t bytes) {
  buffer_.erase(0, taken_);
  taken_ = 0;
  buffer_.reserve(buffer_.size() + bytes);
}

void splitter::feed(std::string_view bytes) {
  if (broken_) return;
  buffer_.erase(0, taken_);
  taken_ = 0;
  buffer_ += bytes;
}

void splitter::again(const frame& last) noexcept { taken_ -= HEADER + last.body.size(); }

std::optional<frame> take_frame(std::string_view& bytes, bool& is_broken) noexcept {
  reader in(bytes);
  std::uint32_t length = 0;
  std::uint8_t type = 0;
  std::string_view zero, body;
  // The type is checked as soon as it is there: a stranger that speaks another protocol is found
  // out by its first bytes.
  if (!in.take(length) || !in.take(type)) return std::nullopt;
  const auto limit = limit_of(type);
  if (!limit || length > *limit) {
    is_broken = true;
    return std::nullopt;
  }
  if (!in.take(zero, 3)) return std::nullopt;
  if (zero != std::string_view("\0\0\0", 3)) {
    is_broken = true;
    return std::nullopt;
  }
  if (!in.take(body, length)) return std::nullopt;
  bytes = in.rest();
  return frame{static_cast<frame_type>(type), body};
}

std::optional<frame> splitter::next() noexcept {
  if (broken_) return std::nullopt;
  std::string_view left = std::string_view(buffer_).substr(taken_);
  const auto found = take_frame(left, broken_);
  taken_ = buffer_.size() - left.size();
  return found;
}

}  // namespace lci::boot::kv
