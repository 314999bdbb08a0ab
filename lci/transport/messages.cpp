#include "lci/transport/messages.hpp"

#include <utility>

namespace lci::transports {

namespace {

class writer {
 public:
  explicit writer(std::size_t kind) : text_(1, static_cast<char>(kind)) {}
  writer& put(std::uint64_t value, std::size_t bytes) {
    for (std::size_t i = 0; i < bytes; ++i)
      text_ += static_cast<char>(static_cast<unsigned char>(value >> (8 * i)));
    return *this;
  }
  writer& put(std::string_view rest) {
    text_.append(rest);
    return *this;
  }
  std::string take() { return std::move(text_); }

 private:
  std::string text_;
};

class reader {
 public:
  explicit reader(std::string_view bytes) noexcept : left_(bytes) {}
  template <class T>
  T get(std::size_t bytes) noexcept {
    if (left_.size() < bytes) {
      is_good_ = false;
      return {};
    }
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < bytes; ++i)
      value |= std::uint64_t{static_cast<unsigned char>(left_[i])} << (8 * i);
    left_.remove_prefix(bytes);
    return static_cast<T>(value);
  }
  bool get_flag() noexcept {
    const auto value = get<std::uint8_t>(1);
    if (value > 1) is_good_ = false;
    return value == 1;
  }
  std::string rest() { return std::string(std::exchange(left_, {})); }
  // All was there, and nothing is left.
  bool is_whole() const noexcept { return is_good_ && left_.empty(); }

 private:
  std::string_view left_;
  bool is_good_ = true;
};

void write(writer& out, const hello& m) { out.put(m.version, 4).put(m.notes, 4); }
void write(writer& out, const ask& m) { out.put(m.number, 4).put(m.key); }
void write(writer& out, const answer& m) {
  out.put(m.number, 4).put(m.is_good ? 1 : 0, 1).put(m.memory, 8);
  out.put(m.address, 8).put(m.size, 8).put(m.rights, 1).put(m.left_ms, 8);
  out.put(m.rmr.base, 8).put(m.rmr.mr_base, 8).put(m.rmr.opaque_rkey, 8);
  out.put(std::string_view(m.reason).substr(0, MOST_REASON));
}
void write(writer& out, const withdrawn& m) { out.put(m.memory, 8).put(m.number, 8); }
void write(writer& out, const released& m) { out.put(m.number, 8).put(m.notes, 8); }
void write(writer& out, const bell& m) {
  out.put((m.is_under_way ? 1U : 0U) | (m.is_awake ? 2U : 0U), 1);
  out.put(m.turn, 4).put(m.heard_turn, 4).put(m.notes, 8);
}

void read(reader& in, hello& m) {
  m.version = in.get<std::uint32_t>(4);
  m.notes = in.get<rcomp_t>(4);
}
void read(reader& in, ask& m) {
  m.number = in.get<std::uint32_t>(4);
  m.key = in.rest();
}
void read(reader& in, answer& m) {
  m.number = in.get<std::uint32_t>(4);
  m.is_good = in.get_flag();
  m.memory = in.get<std::uint64_t>(8);
  m.address = in.get<std::uint64_t>(8);
  m.size = in.get<std::uint64_t>(8);
  m.rights = in.get<std::uint8_t>(1);
  m.left_ms = in.get<std::uint64_t>(8);
  m.rmr.base = in.get<std::uintptr_t>(8);
  m.rmr.mr_base = in.get<std::uintptr_t>(8);
  m.rmr.opaque_rkey = in.get<std::uint64_t>(8);
  m.reason = in.rest();
}
void read(reader& in, withdrawn& m) {
  m.memory = in.get<std::uint64_t>(8);
  m.number = in.get<std::uint64_t>(8);
}
void read(reader& in, released& m) {
  m.number = in.get<std::uint64_t>(8);
  m.notes = in.get<std::uint64_t>(8);
}
void read(reader& in, bell& m) {
  const auto flags = in.get<std::uint8_t>(1);
  m.is_under_way = (flags & 1) != 0;
  m.is_awake = (flags & 2) != 0;
  m.turn = in.get<std::uint32_t>(4);
  m.heard_turn = in.get<std::uint32_t>(4);
  m.notes = in.get<std::uint64_t>(8);
}

template <std::size_t I = 0>
std::optional<link_message> read_kind(std::size_t kind, reader& in) {
  if constexpr (I < std::variant_size_v<link_message>) {
    if (kind != I) return read_kind<I + 1>(kind, in);
    std::variant_alternative_t<I, link_message> one;
    read(in, one);
    if (in.is_whole()) return one;
  }
  return std::nullopt;
}

}  // namespace

std::string encode(const link_message& one) {
  writer out(one.index());
  std::visit([&](const auto& m) { write(out, m); }, one);
  return out.take();
}

std::optional<link_message> decode(std::string_view bytes) {
  if (bytes.empty()) return std::nullopt;
  reader in(bytes.substr(1));
  return read_kind(static_cast<unsigned char>(bytes[0]), in);
}

}  // namespace lci::transports
