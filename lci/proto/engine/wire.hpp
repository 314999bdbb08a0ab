// What travels: the 32 bits of immediate data and the small bodies of control messages.
// docs/wire.md explains every field. Threads: pure functions. Always true: a decoder takes bytes
// and a length and answers false for what does not parse.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "lci/data/slot_table.hpp"
#include "lci/types.hpp"
#include "lci/wqe/word_change.hpp"

namespace lci::proto::wire {

// Raised whenever the meaning of a byte on the wire changes; peers compare it when they meet.
inline constexpr std::uint32_t VERSION = 12;

// Immediate data. Bit 31 set: a message whose remote completion and tag fit ("fast"): rcomp above
// tag. Bit 31 clear: bits 30..28 are a kind below 6 and the rest its argument, or they are MORE and
// the rest is the kind less FIRST_OF_MORE.
inline constexpr std::uint32_t FAST_BIT = 1u << 31;
inline constexpr std::uint32_t MORE = 6, FIRST_OF_MORE = 8;
enum class kind : std::uint32_t {
  extended = 0,  // message with an extended_head before its payload
  rts = 1,       // rendezvous: ready to send; body rts
  rtr = 2,       // rendezvous: ready to receive; body rtr
  fin = 3,       // rendezvous: all data is there; body fin
  fin_imm =
      4,  // the same as immediate data of the last put; argument: short name of the receive state
  signal = 5,       // put with signal where the network has no immediate data for puts; body is the
                    // immediate word
  put_request = 8,  // a put whose data the target has to fetch out of its slots; body put_request
  get_request = 9,  // a get that the target has to serve; body get_request
  piece = 10,       // a slot is full; body piece
  credit = 11,      // a slot is empty again; body credit
  ack = 12,         // the target of a put has everything; body ack
  restage = 13,     // the destination cannot be reached directly: make it staged; body restage
  drop_send = 14,   // the receiver has given up; body drop
  drop_receive = 15,  // the sender has given up; body drop
  await_flag = 16,    // a GPU will say when its copy is there; body await_flag
  landing = 17,       // a put whose data a GPU brings to host memory of the sender; body landing
  // 18 was a put that carried its data, which was not acknowledged
  preposted = 19,      // a receive in GPU memory waits for a message of this key; body preposted
  claim = 20,          // a GPU writes into a pre-posted receive and will say when; body claim
  preposted_end = 21,  // a pre-posted receive was written, or could not be; body preposted_end
  atomic = 22,         // change a word of registered memory; body atomic
  atomic_end = 23,     // what it was, or why it was not changed; body atomic_end
  card_ask = 24,       // of a card whose queues kernels write: see card_matter; body card_ask
  card_answer = 25     // body card_answer
};
inline constexpr std::size_t KINDS = 26;  // of which some are not used
constexpr std::uint32_t kind_imm(kind k, std::uint32_t argument = 0) noexcept {
  const auto number = static_cast<std::uint32_t>(k);
  return number < MORE ? number << 28 | argument : MORE << 28 | (number - FIRST_OF_MORE);
}
// A number from KINDS on names nothing.
constexpr kind kind_of(std::uint32_t imm) noexcept {
  const std::uint32_t number = imm >> 28 & 7u;
  return static_cast<kind>(number == MORE ? FIRST_OF_MORE + (imm & 0x0fffffffu) : number);
}

// Widths of the two fields of a fast immediate, the same on all ranks (attributes imm_nbits_tag,
// imm_nbits_rcomp).
class imm_layout {
 public:
  constexpr imm_layout(std::uint32_t tag_bits = 16, std::uint32_t rcomp_bits = 15) noexcept
      : tag_bits_(tag_bits),
        tag_mask_((std::uint32_t{1} << tag_bits) - 1),
        rcomp_mask_((std::uint32_t{1} << rcomp_bits) - 1) {}

  constexpr std::uint64_t max_tag() const noexcept { return tag_mask_; }
  constexpr std::uint64_t max_rcomp() const noexcept { return rcomp_mask_; }
  constexpr bool fits(rcomp_t rcomp, tag_t tag) const noexcept {
    return tag <= tag_mask_ && rcomp <= rcomp_mask_;
  }
  constexpr std::uint32_t encode(rcomp_t rcomp, tag_t tag) const noexcept {
    return FAST_BIT | rcomp << tag_bits_ | static_cast<std::uint32_t>(tag);
  }
  constexpr rcomp_t rcomp_of(std::uint32_t imm) const noexcept {
    return imm >> tag_bits_ & rcomp_mask_;
  }
  constexpr tag_t tag_of(std::uint32_t imm) const noexcept { return imm & tag_mask_; }

 private:
  std::uint32_t tag_bits_;  // the two widths together are at most 31
  std::uint32_t tag_mask_;  // kept because shifting one is dearer than loading it
  std::uint32_t rcomp_mask_;
};

// A state of a peer, {slot, generation} of its slot table: never an address.
using name = data::slot_name;

// fin_imm has 28 bits for a name: 18 of slot, 10 of generation. States with a higher slot are
// finished by a fin message instead.
inline constexpr std::uint32_t SHORT_SLOT_BITS = 18;
constexpr bool has_short_name(name n) noexcept { return n.slot >> SHORT_SLOT_BITS == 0; }
constexpr std::uint32_t short_name(name n) noexcept {
  return (n.generation & 0x3ffu) << SHORT_SLOT_BITS | n.slot;
}
constexpr std::uint32_t short_slot(std::uint32_t argument) noexcept {
  return argument & ((1u << SHORT_SLOT_BITS) - 1);
}
constexpr bool short_generation_is(std::uint32_t argument, std::uint32_t generation) noexcept {
  return (argument >> SHORT_SLOT_BITS & 0x3ffu) == (generation & 0x3ffu);
}

// Precedes the payload of a message whose rcomp or tag is too wide for the immediate. 12 bytes, as
// api "M".
struct extended_head {
  std::uint32_t rcomp = 0;
  std::uint32_t tag_low = 0;
  std::uint32_t tag_high = 0;

  static extended_head of(rcomp_t rcomp, tag_t tag) noexcept {
    return {rcomp, static_cast<std::uint32_t>(tag), static_cast<std::uint32_t>(tag >> 32)};
  }
  tag_t tag() const noexcept { return static_cast<tag_t>(tag_high) << 32 | tag_low; }
};
static_assert(sizeof(extended_head) == 12);

struct rts {
  std::uint64_t size = 0;  // bytes of the message
  std::uint64_t tag = 0;
  std::uint32_t rcomp = 0;  // where it goes: a completion object or a policy of a matching engine
  std::uint32_t flags = 0;  // FROM_DEVICE
  name sender;              // of the sender's state
};
static_assert(sizeof(rts) == 32);
inline constexpr std::uint32_t FROM_DEVICE = 1;  // the data is in GPU memory

// Host memory of the receiver that a message passes through: `count` slots of `bytes`, piece k in
// slot k % count. Nothing: count 0; with DIRECT_ONLY as `bytes` the receiver refuses to be given
// any.
struct slots {
  std::uint32_t bytes = 0;
  std::uint32_t count = 0;
};

// Where the registration that a body names is for the sender's network card, in words that only the
// receiver's network can make. key 0: nothing, the name is enough.
struct target {
  std::uint64_t address = 0;  // of byte 0
  std::uint64_t key = 0;
  std::uint64_t more = 0;  // of the key
};

inline constexpr std::uint32_t DIRECT_ONLY = 1;

struct rtr {
  name sender;               // repeated from the rts
  name receiver;             // of the receiver's state; if staged, of its staged state
  name region;               // registration that holds the destination, or the slots
  std::uint64_t offset = 0;  // of the destination in it; if staged, the slots' place in the
                             // receiver's arena
  slots through;
  target at;  // of `region`
};
static_assert(sizeof(rtr) == 64);

struct put_request {
  name sender;
  name region;  // the destination
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
  std::uint32_t imm = 0;    // to be signalled at the end, 0: nothing
  std::uint32_t flags = 0;  // FROM_DEVICE
};
static_assert(sizeof(put_request) == 40);

struct get_request {
  name receiver;  // staged state of the requester
  name region;    // the source
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
  name slots_region;
  std::uint64_t slots_place = 0;
  slots through;
  target at;  // of `slots_region`
};
static_assert(sizeof(get_request) == 80);

struct piece {
  name receiver;
  name sender;  // staged state, for the credit
  std::uint64_t index = 0;
};

struct credit {
  name sender;
  std::uint64_t index = 0;  // of the piece that has left the slot
};

struct ack {
  name sender;  // staged state
};

struct restage {
  name sender;    // of the sender's state
  name receiver;  // of the receiver's state
};

// The target polls a word in the sender's arena. A GPU makes it FLAG_SET; the sender makes it
// FLAG_VOID if the copy failed; the target gives it back as 0.
inline constexpr std::uint64_t FLAG_TAKEN = 1, FLAG_SET = 2, FLAG_VOID = 3;
struct await_flag {
  std::uint64_t flag = 0;  // place of the word
  std::uint32_t imm = 0;   // what to do then, as if it were the immediate data of a put
  std::uint32_t reserved = 0;
};

struct landing {
  name sender;  // staged state, for the ack
  name region;  // the destination
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
  std::uint64_t place = 0;  // of the data in the sender's arena
  std::uint64_t flag = 0;   // place of the word; 0: the data is there
  std::uint32_t imm = 0;    // to be signalled at the end, 0: nothing
  std::uint32_t reserved = 0;
};
static_assert(sizeof(landing) == 56);

// A receive that its sender may write without asking. The side that has it is decided in a word of
// the receiver's arena, which the sender turns from one preposted_value() to the other.
inline constexpr std::uint64_t PREPOSTED_OPEN = 4, PREPOSTED_CLAIMED = 5;
constexpr std::uint64_t preposted_value(name receiver, std::uint64_t state) noexcept {
  return receiver.to_bits() << 8 | state;
}
struct preposted {
  name receiver;             // of the pre-posted receive
  name region;               // registration that holds the destination
  std::uint64_t offset = 0;  // of the destination in it
  std::uint64_t room = 0;    // bytes
  std::uint64_t tag = 0;
  std::uint64_t word = 0;    // its place
  std::uint32_t rcomp = 0;   // what such a message names
  std::uint32_t since = 0;   // none with a number less than number - since is open
  std::uint64_t number = 0;  // of those that this rank is told of; rises, see preposted_receives
};
static_assert(sizeof(preposted) == 64);

struct claim {
  name receiver;           // of the pre-posted receive
  std::uint64_t size = 0;  // bytes of the message
  std::uint64_t flag = 0;  // place of the word that a GPU makes FLAG_SET, as in await_flag
};

struct preposted_end {
  name receiver;           // of the pre-posted receive
  std::uint64_t size = 0;  // bytes of the message
  std::uint32_t ok = 0;    // 0: it failed
  std::uint32_t reserved = 0;
};

struct atomic {
  name requester;            // of the state that gets the answer
  name region;               // registration that holds the word
  std::uint64_t offset = 0;  // of the word in it
  wqe::word_change change;
};
static_assert(sizeof(atomic) == 64);
constexpr bool is_sound(const atomic& body) noexcept { return wqe::is_sound(body.change); }

// What became of it. The word was changed, or found different, only with `done`.
enum class atomic_result : std::uint32_t {
  done,
  bad_key,        // no such registration, or not any more
  out_of_bounds,  // the word is not inside
  misaligned,     // for its size
  not_possible,   // in that memory, by that process
  failed          // a GPU could not
};
struct atomic_end {
  name requester;
  std::uint64_t old = 0;  // 4 bytes: in the low half
  atomic_result result = atomic_result::done;
  std::uint32_t reserved = 0;
};
static_assert(sizeof(atomic_end) == 24);
constexpr bool is_sound(const atomic_end& body) noexcept {
  return body.result <= atomic_result::failed;
}

// What an endpoint over a card asks of another rank's.
enum class card_matter : std::uint32_t {
  pair = 1,  // make a queue pair for mine, and connect it
  key = 2,   // by which number does your card know that registration?
  end = 3    // a queue pair that was made for mine is of no use any more; there is no answer
};
// Where a queue pair is, as the network says it, at most.
inline constexpr std::size_t CARD_BYTES = 40;
struct card_ask {
  name requester;  // of the question
  name about;      // key: a registration; end: the pair
  card_matter matter = card_matter::pair;
  std::uint32_t size = 0;           // pair: bytes in use
  std::byte address[CARD_BYTES]{};  // pair: of the requester's queue pair
};
static_assert(sizeof(card_ask) == 64);
constexpr bool is_sound(const card_ask& body) noexcept {
  return body.matter >= card_matter::pair && body.matter <= card_matter::end &&
         body.size <= CARD_BYTES;
}

enum class card_result : std::uint32_t {
  done,
  no_card,     // no network of that rank drives such cards
  not_made,    // the queue pair could not be made, or connected
  no_region,   // no such registration, or not any more
  not_on_card  // the card does not reach that memory
};
struct card_answer {
  name requester;
  name pair;  // pair: of what was made
  card_result result = card_result::done;
  std::uint32_t size = 0;           // pair: bytes in use
  std::byte address[CARD_BYTES]{};  // pair: of what was made; key: the number, in the first four
};
static_assert(sizeof(card_answer) == 64);
constexpr bool is_sound(const card_answer& body) noexcept {
  return body.result <= card_result::not_on_card && body.size <= CARD_BYTES;
}

struct drop {
  name whose;                // state of the side that is told
  std::uint32_t staged = 0;  // 1: a staged state
  std::uint32_t reserved = 0;
};

struct fin {
  name receiver;
};

struct signal_body {
  std::uint32_t imm = 0;
};

// Bodies that end with a target travel without it if it says nothing.
template <class Body>
inline constexpr bool ENDS_WITH_TARGET =
    std::is_same_v<Body, rtr> || std::is_same_v<Body, get_request>;
template <class Body>
constexpr std::size_t length_of(const Body& body) noexcept {
  if constexpr (ENDS_WITH_TARGET<Body>)
    if (body.at.key == 0) return sizeof(Body) - sizeof(target);
  return sizeof(Body);
}

// Control bodies have one legal length each; for those that end with a target, what it says
// decides. Those that have an is_sound() say by it what else does not parse.
template <class Body>
bool decode(const std::byte* data, std::size_t size, Body& out) noexcept {
  const bool is_short = ENDS_WITH_TARGET<Body> && size == sizeof(Body) - sizeof(target);
  if (!is_short && size != sizeof(Body)) return false;
  Body read;
  std::memcpy(&read, data, size);
  if (length_of(read) != size) return false;
  if constexpr (requires { is_sound(read); })
    if (!is_sound(read)) return false;
  out = read;
  return true;
}

// Splits off the head of an extended message.
inline bool decode_extended(const std::byte*& data, std::size_t& size,
                            extended_head& out) noexcept {
  if (size < sizeof(out)) return false;
  std::memcpy(&out, data, sizeof(out));
  data += sizeof(out);
  size -= sizeof(out);
  return true;
}

}  // namespace lci::proto::wire
