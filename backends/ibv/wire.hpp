// What goes between two verbs fabrics beside messages: the datagrams that make a connection, and
// the rows that peers read to find a registration. Threads: pure functions. Always true: all fields
// are little endian (every machine with a card that this was written for is); a decoder takes bytes
// and a length and answers false for what does not parse. docs/wire.md explains the fields.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "lci/base/platform.hpp"

namespace lci::ibv {

inline constexpr std::uint32_t HELLO_MAGIC = 0x4942434c;
inline constexpr std::uint32_t WIRE_VERSION = 2;
// Cards that a process uses together.
inline constexpr std::size_t MAX_RAILS = 4;

// Where a port is: enough for an address handle.
struct place {
  std::uint8_t gid[16] = {};
  std::uint16_t lid = 0;
  std::uint8_t has_gid = 0;
  std::uint8_t mtu = 0;  // ibv_mtu, as active at that port
};
static_assert(sizeof(place) == 20);

// A datagram. Both sides say the same things, again and again until each knows that the other knows
// it; so loss, repetition and both calling at once need no cases of their own.
struct hello {
  std::uint32_t magic = HELLO_MAGIC;
  std::uint32_t version = WIRE_VERSION;
  std::uint64_t to = 0;    // the fabric that is meant
  std::uint64_t from = 0;  // the fabric that speaks
  std::int32_t rank = -1;  // the sender
  std::uint32_t device = 0;
  std::uint32_t qpn = 0;   // my queue pair for you on this device
  std::uint32_t psn = 0;   // where its numbers start
  std::uint32_t echo = 0;  // your queue pair, which mine is connected to; 0: I do not know it
  std::uint32_t directory_key = 0;
  std::uint64_t directory = 0;  // of my published registrations
  std::uint8_t flags = 0;       // net::connected::hello_flags
  std::uint8_t reads = 0;       // RDMA reads that I serve at a time
  std::uint8_t rails = 0;       // how many of the following
  std::uint8_t reserved = 0;
  place where;
  // The same on my other cards; numbers start where those of the first do.
  struct other {
    std::uint32_t qpn = 0;
    place where;
  };
  other others[MAX_RAILS - 1];
};
static_assert(sizeof(hello) == 152);

inline bool decode(const std::byte* data, std::size_t size, hello& out) noexcept {
  if (size != sizeof(hello)) return false;
  std::memcpy(&out, data, sizeof(hello));
  return out.magic == HELLO_MAGIC && out.version == WIRE_VERSION && out.qpn != 0 &&
         out.qpn >> 24 == 0 && out.rails <= MAX_RAILS - 1;
}

// What fabric::address() says.
struct fabric_address {
  std::uint64_t id = 0;    // drawn at random; says which fabric of a rank is meant
  std::uint64_t host = 0;  // the same for processes that know each other by their numbers
  std::uint32_t process = 0;
  std::uint32_t qpn = 0;
  place where;
  std::uint32_t reserved = 0;

  std::string text() const;
  static bool parse(std::string_view text, fabric_address& out) noexcept;
};

// One of the backend's own messages among those of the layer above: one without immediate data. One
// of no bytes says that its sender disconnects.
struct note {
  enum class kind : std::uint32_t {
    known = 1,     // I keep what your row says of this name: tell me when it ends
    withdrawn = 2  // it has ended
  };
  kind what = kind::known;
  std::uint32_t slot = 0;
  std::uint32_t generation = 0;
  std::uint32_t reserved = 0;
};
static_assert(sizeof(note) == 16);

inline bool decode(const std::byte* data, std::size_t size, note& out) noexcept {
  if (size != sizeof(note)) return false;
  std::memcpy(&out, data, sizeof(note));
  return out.what == note::kind::known || out.what == note::kind::withdrawn;
}

// A registration as peers read it. It may be read while it changes, so it checks itself.
struct row {
  static constexpr std::uint32_t OFF_NETWORK = 1u << 8;  // no card may be given it
  std::uint32_t generation = 0;                          // 0: empty
  std::uint32_t kind = 0;                                // mem::mem_kind, and OFF_NETWORK
  std::uint64_t address = 0;
  std::uint64_t size = 0;
  std::uint32_t keys[MAX_RAILS] = {};  // by card; 0: that one does not reach it
  std::uint32_t reserved = 0;
  std::uint32_t check = 0;
};
static_assert(sizeof(row) == 48);
// A part of the table: ROWS rows. key 0: none of them was ever used.
struct block_reference {
  std::uint64_t address = 0;
  std::uint32_t key = 0;
  std::uint32_t check = 0;
};
static_assert(sizeof(block_reference) == 16);
inline constexpr std::uint32_t ROWS = 1024;
inline constexpr std::uint32_t BLOCKS = 1024;

namespace detail {
constexpr std::uint32_t mix(std::uint64_t h, std::uint64_t v) noexcept {
  h = (h ^ v) * 0x9e3779b97f4a7c15ull;
  return static_cast<std::uint32_t>(h >> 32 ^ h);
}
}  // namespace detail
// Never what zeroed memory holds.
constexpr std::uint32_t check_of(const row& r) noexcept {
  std::uint32_t h = detail::mix(r.generation + 1ull, r.keys[0]);
  for (std::size_t i = 1; i < MAX_RAILS; ++i) h = detail::mix(h, r.keys[i]);
  h = detail::mix(h, r.address);
  h = detail::mix(h, r.size);
  return detail::mix(h, r.kind) | 1u;
}
constexpr std::uint32_t check_of(const block_reference& b) noexcept {
  return detail::mix(detail::mix(1, b.address), b.key) | 1u;
}

}  // namespace lci::ibv
