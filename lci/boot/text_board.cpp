#include "lci/boot/text_board.hpp"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <system_error>
#include <utility>

namespace lci::boot {

namespace {

constexpr std::string_view LETTERS =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
// The limit for a round of one rank; a length beyond it is taken for a lie.
constexpr std::size_t MOST_LETTERS = std::size_t{256} << 20;

std::string piece_key(unsigned round, int rank, std::size_t piece) {
  return "lci-" + std::to_string(round) + "-" + std::to_string(rank) + "-" + std::to_string(piece);
}

[[noreturn]] void throw_torn(const char* store, int rank, unsigned round, const std::string& how) {
  throw backend_error(std::string(store) + ": what rank " + std::to_string(rank) +
                      " had put before fence " + std::to_string(round) +
                      " came back damaged: " + how);
}

}  // namespace

std::string to_letters(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size() * 4 / 3 + 4);
  for (std::size_t at = 0; at < bytes.size(); at += 3) {
    const std::size_t have = std::min<std::size_t>(3, bytes.size() - at);
    std::uint32_t bits = 0;
    for (std::size_t i = 0; i < 3; ++i)
      bits = bits << 8 | (i < have ? static_cast<unsigned char>(bytes[at + i]) : 0u);
    for (std::size_t i = 0; i <= have; ++i) out += LETTERS[bits >> (18 - 6 * i) & 63];
  }
  return out;
}

std::optional<std::string> from_letters(std::string_view letters) {
  if (letters.size() % 4 == 1) return std::nullopt;
  std::string out;
  out.reserve(letters.size() * 3 / 4);
  std::uint32_t bits = 0;
  int held = 0;  // bits that are not written yet
  for (const char letter : letters) {
    const std::size_t value = LETTERS.find(letter);
    if (value == std::string_view::npos) return std::nullopt;
    bits = bits << 6 | static_cast<std::uint32_t>(value);
    held += 6;
    if (held < 8) continue;
    held -= 8;
    out += static_cast<char>(static_cast<unsigned char>(bits >> held));
  }
  // The remaining bits are zero if lci wrote it.
  if ((bits & ((1u << held) - 1)) != 0) return std::nullopt;
  return out;
}

// The first piece starts with the number of letters, so that a reader knows how many pieces there
// are.
void text_board::exchange(unsigned round, const std::string& sheet) {
  const std::string letters = to_letters(sheet);
  const std::string text = std::to_string(letters.size()) + ":" + letters;
  const std::size_t most = store_->max_value();
  for (std::size_t piece = 0; piece * most < text.size(); ++piece)
    store_->put(piece_key(round, rank(), piece), text.substr(piece * most, most));
  store_->fence();
}

std::string text_board::read(int rank, unsigned round) {
  std::string text = store_->get(rank, piece_key(round, rank, 0));
  std::size_t length = 0;
  const char* const end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, length);
  if (parsed.ec != std::errc() || parsed.ptr == end || *parsed.ptr != ':' || length > MOST_LETTERS)
    throw_torn(name(), rank, round, "its first piece does not start with a length");
  const std::size_t whole = static_cast<std::size_t>(parsed.ptr - text.data()) + 1 + length;
  const std::size_t start = whole - length;
  for (std::size_t piece = 1; text.size() < whole; ++piece) {
    const std::string more = store_->get(rank, piece_key(round, rank, piece));
    if (more.empty())
      throw_torn(name(), rank, round, "piece " + std::to_string(piece) + " is empty");
    text += more;
  }
  if (text.size() != whole) {
    throw_torn(
        name(), rank, round,
        std::to_string(text.size() - start) + " letters instead of " + std::to_string(length));
  }
  auto sheet = from_letters(std::string_view(text).substr(start));
  if (!sheet) throw_torn(name(), rank, round, "letters that no rank writes");
  return std::move(*sheet);
}

}  // namespace lci::boot
