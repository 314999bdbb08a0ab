// What goes between two libfabric fabrics beside messages: hellos, which make a connection, and
// notes among the messages. Threads: pure functions. Always true: all fields are little endian; a
// decoder takes bytes and a length and answers false for what does not parse. docs/wire.md explains
// the fields.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "lci/base/platform.hpp"
#include "lci/net/backend.hpp"

namespace lci::ofi {

inline constexpr std::uint32_t HELLO_MAGIC = 0x4f49434c;
inline constexpr std::uint32_t WIRE_VERSION = 2;
// Of an endpoint's name, as the provider gives it.
inline constexpr std::size_t MAX_NAME = 64;

struct endpoint_name {
  std::uint16_t size = 0;
  std::uint8_t bytes[MAX_NAME] = {};
  bool operator==(const endpoint_name& other) const noexcept {
    return size == other.size && std::memcmp(bytes, other.bytes, size) == 0;
  }
};

// The same address and port of a host. False where one of them is of none.
bool is_same_address(const endpoint_name& a, const endpoint_name& b) noexcept;

// Both sides say the same things, again and again until each knows that the other knows it; so
// repetition and both calling at once need no cases of their own.
struct hello {
  // Beside net::connected::hello_flags.
  static constexpr std::uint8_t KNOWS_YOU = 4;  // your endpoint of this device is in my list

  std::uint32_t magic = HELLO_MAGIC;
  std::uint32_t version = WIRE_VERSION;
  std::uint64_t to = 0;    // the fabric that is meant
  std::uint64_t from = 0;  // the fabric that speaks
  std::int32_t rank = -1;  // the sender
  std::uint32_t device = 0;
  std::uint8_t flags = 0;
  std::uint8_t reserved[5] = {};
  endpoint_name name;  // of that device of mine
};
static_assert(sizeof(hello) == 104);

inline bool decode(const std::byte* data, std::size_t size, hello& out) noexcept {
  if (size != sizeof(hello)) return false;
  std::memcpy(&out, data, sizeof(hello));
  return out.magic == HELLO_MAGIC && out.version == WIRE_VERSION && out.name.size != 0 &&
         out.name.size <= MAX_NAME;
}

// What fabric::address() says.
struct fabric_address {
  std::uint64_t id = 0;        // drawn at random; says which fabric of a rank is meant
  std::uint64_t host = 0;      // the same for processes of one machine and network namespace
  std::uint16_t lifeline = 0;  // the port where it is watched, if hosts have addresses
  endpoint_name name;          // of the endpoint that takes hellos

  std::string text() const;
  static bool parse(std::string_view text, fabric_address& out) noexcept;
  // Why a peer with that address cannot be reached from this one; empty: nothing in them says so.
  std::string why_apart(const fabric_address& peer) const;
};

// The word that travels beside a message or a write, or before it where the provider carries less:
// the sender, what kind it is, and 32 bits of the layer above.
class word {
 public:
  enum class kind : std::uint32_t { message = 0, immediate = 1, note = 2 };
  static constexpr std::uint64_t make(int rank, kind what, std::uint32_t imm) noexcept {
    return std::uint64_t{static_cast<std::uint32_t>(rank) | static_cast<std::uint32_t>(what) << 30}
               << 32 |
           imm;
  }
  explicit constexpr word(std::uint64_t all) noexcept : all_(all) {}
  constexpr std::uint32_t rank() const noexcept {
    return static_cast<std::uint32_t>(all_ >> 32) & 0x3fffffffu;
  }
  constexpr std::uint32_t what() const noexcept { return static_cast<std::uint32_t>(all_ >> 62); }
  constexpr bool is(kind k) const noexcept { return what() == static_cast<std::uint32_t>(k); }
  constexpr std::uint32_t imm() const noexcept { return static_cast<std::uint32_t>(all_); }

 private:
  std::uint64_t all_;
};

// One of the backend's own messages among those of the layer above.
struct note {
  enum class kind : std::uint32_t {
    credit = 1,      // I have dealt with so many of your messages (count)
    ask = 2,         // what is registered under this name?
    row = 3,         // this is; I tell you when it ends
    no_row = 4,      // nothing is
    withdrawn = 5,   // it has ended; generation 0: whatever I have said before may have
    keepalive = 6,   // are you there?
    disconnect = 7,  // I leave; count 1: I live, but the connection has failed here
    flush = 8,       // say when you have this: writes before it are there, too
    flushed = 9,     // I have that one (count)
    ask_again = 10   // the answer where I could not tell you when it ends
  };
  static constexpr std::uint32_t OFF_NETWORK = 1u << 8;  // no card may be given it
  kind what = kind::keepalive;
  std::uint32_t slot = 0;
  std::uint32_t generation = 0;
  std::uint32_t memory = 0;   // mem::mem_kind, and OFF_NETWORK
  std::uint64_t address = 0;  // in the process of its owner
  std::uint64_t count = 0;    // bytes; or as the kind says
  std::uint64_t at = 0;       // what peers call byte 0
  std::uint64_t key = 0;      // one more than the provider's; 0: none
};
static_assert(sizeof(note) == 48);

inline bool decode(const std::byte* data, std::size_t size, note& out) noexcept {
  if (size != sizeof(note)) return false;
  std::memcpy(&out, data, sizeof(note));
  return out.what >= note::kind::credit && out.what <= note::kind::ask_again;
}

}  // namespace lci::ofi
