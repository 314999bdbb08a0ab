// What lies in memory that two processes share: lanes, their directory, the control page. A peer
// may be of any quality, so a process that reads these checks what it read before use; no field is
// ever taken for an address. Callers: lane, fabric, device, stream. Threads: see each struct.
// Always true: everything is named by its offset in the arena of the process that owns it; 0 means
// none; memory is zero before first use, and zero means "nothing here", in slots those behind the
// first one (prepare_slots).
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "lci/base/platform.hpp"

namespace lci::shm {

// Changes with every change of this file or of connect.hpp's hello.
inline constexpr std::uint16_t WIRE_VERSION = 7;

// A slot is two lines. The first carries the header and LINE_DATA bytes, so that a small message is
// one line transfer; the second is touched by longer messages only.
inline constexpr std::size_t SLOT_SIZE = 2 * base::CACHE_LINE;
inline constexpr std::size_t SLOT_DATA = SLOT_SIZE - sizeof(std::uint64_t);
inline constexpr std::uint32_t LANE_SLOTS = 128;  // a power of two; a lane is 16 KiB
// Lanes from one device of a process to one peer: OWN_LANES for threads, one that all further
// threads share behind a lock, one that belongs to the thread that polls the device.
inline constexpr std::uint32_t OWN_LANES = 30;
inline constexpr std::uint32_t SHARED_LANE = OWN_LANES;
inline constexpr std::uint32_t POLLER_LANE = OWN_LANES + 1;
inline constexpr std::uint32_t LANES = OWN_LANES + 2;
// Devices per fabric. A table entry costs 8 bytes per peer, and a line per process.
inline constexpr std::uint32_t MAX_DEVICES = 128;

// Bytes of a put_ring.
inline constexpr std::uint32_t PUT_RING = 512 * 1024;
// Payload of a packet for what is copied on its way (bulk_stream).
inline constexpr std::size_t CHUNK_MAX = 64 * 1024;
// A get of at most this is answered as soon as it is read, with one packet.
inline constexpr std::size_t MOST_SHORT_GET = 8 * 1024;

// What a slot holds.
enum class slot_kind : std::uint8_t {
  none = 0,      // not written yet
  message,       // data: the message itself, `size` bytes
  packet,        // data: packet_record
  immediate,     // no data: a put_imm() whose data is already in place
  put,           // data: put_record, then the bytes to write; `size` counts both
  put_packet,    // data: chunk_record
  get_request,   // data: get_record
  get_failed,    // data: get_failure
  read_request,  // data: read_record
  put_in_ring    // data: chunk_record
};

// Bits of a header's flags.
inline constexpr std::uint8_t MAY_KEEP = 1;  // packet: the receiver may borrow it
inline constexpr std::uint8_t HAS_IMM =
    2;  // put, put_packet, put_in_ring, read_request: an immediate follows the data
inline constexpr std::uint8_t GET_DONE = 4;  // put_packet: the last piece of a get

// The highest bit of a header, and so of its flags: set in the first lap of a lane, clear in the
// second, and so on. A slot holds a message if its bit is that of the lap in which its reader is.
inline constexpr std::uint64_t LAP_BIT = std::uint64_t{1} << 63;
// Positions count messages; the slot is what remains of LANE_SLOTS, and the bit above is the lap's.
constexpr std::uint32_t first_position(std::uint32_t first_slot) noexcept {
  return LANE_SLOTS + first_slot;
}
constexpr std::uint64_t lap_bit(std::uint32_t position) noexcept {
  static_assert(LAP_BIT == std::uint64_t{LANE_SLOTS} << 56);
  return std::uint64_t{position & LANE_SLOTS} << 56;
}

// The header word, bits from the lowest: imm 32 | size 16 | kind 8 | flags 8.
struct slot_header {
  std::uint32_t imm = 0;
  std::uint16_t size = 0;  // bytes of data[] in use
  slot_kind kind = slot_kind::none;
  std::uint8_t flags = 0;

  constexpr std::uint64_t pack() const noexcept {
    return imm | std::uint64_t{size} << 32 | std::uint64_t{static_cast<std::uint8_t>(kind)} << 48 |
           std::uint64_t{flags} << 56;
  }
  static constexpr slot_header unpack(std::uint64_t word) noexcept {
    return {static_cast<std::uint32_t>(word), static_cast<std::uint16_t>(word >> 32),
            static_cast<slot_kind>(static_cast<std::uint8_t>(word >> 48)),
            static_cast<std::uint8_t>(word >> 56)};
  }
};

// Written by the sender alone.
struct alignas(SLOT_SIZE) slot {
  std::atomic<std::uint64_t> header{0};
  std::byte data[SLOT_DATA];
};
static_assert(sizeof(slot) == SLOT_SIZE && SLOT_DATA == 120);
// Bytes of a message beside the header, in the line that the receiver polls.
inline constexpr std::size_t FIRST_LINE_DATA = base::CACHE_LINE - sizeof(std::uint64_t);
inline constexpr std::size_t LANE_SIZE = LANE_SLOTS * sizeof(slot);
inline constexpr std::size_t LANE_ALIGN = 4096;
static_assert(LANE_SLOTS < LANE_ALIGN);

// The slot where a lane starts. Lanes that all started at the beginning of a page would share one
// set of a first-level cache, and polling silent ones would be waiting for the second level. Every
// run of ranks, with whatever distance, is spread (Fibonacci hashing).
constexpr std::uint32_t spread(std::uint32_t number, std::uint32_t over) noexcept {
  return (number * 2654435769u >> 16) % over;
}
constexpr std::uint32_t first_slot_of(int rank, std::uint32_t lane) noexcept {
  return spread(static_cast<std::uint32_t>(rank) * LANES + lane, LANE_SLOTS);
}
// The slots in front of the first one are used in the second lap at first. By their zeros they
// would hold messages of it.
inline void prepare_slots(slot* all, std::uint32_t first) noexcept {
  for (std::uint32_t i = 0; i < first; ++i) all[i].header.store(LAP_BIT, std::memory_order_relaxed);
}
// Addresses that a process leaves out before its first lane, for the same reason: peers map arenas
// at round distances, and pages at the same place of each share one set of the address cache.
constexpr std::size_t page_color_of(int rank) noexcept {
  return spread(static_cast<std::uint32_t>(rank), 256) * LANE_ALIGN;
}

// A message that lies in a packet of the sender's arena.
struct packet_record {
  std::uint64_t packet = 0;  // offset of the packet's header in the sender's arena
  std::uint32_t size = 0;    // bytes of its payload
  std::uint32_t reserved = 0;
};

// A put whose bytes follow in the same slot.
struct put_record {
  std::uint32_t region_slot = 0;        // the target's region
  std::uint32_t region_generation = 0;  // both must match a live registration of the target
  std::uint64_t offset = 0;             // bytes from the start of that region
};
inline constexpr std::size_t MAX_SLOT_PUT = SLOT_DATA - sizeof(put_record);

// A put, or a piece of one, whose bytes lie in the sender's arena. put_packet: in a packet. The
// target copies them and returns the packet; if it refuses it stores CHUNK_REFUSED in the packet's
// `length` first. put_in_ring: in a put_ring. They are the sender's again once the message has been
// consumed.
struct chunk_record {
  put_record where;
  std::uint64_t data = 0;  // offset in the sender's arena: of the packet's header, or of the bytes
  std::uint32_t size = 0;  // bytes of the packet's payload, or bytes
  std::uint32_t reserved = 0;
};
inline constexpr std::uint32_t CHUNK_REFUSED = ~std::uint32_t{0};

// A part of a put whose bytes lie in the sender's own memory: the target reads them with the
// kernel's help and returns the packet, which carries no data. It stores CHUNK_REFUSED as above, or
// CHUNK_NOT_READ if the system does not let it. An immediate with it counts once the bytes are
// there, unless the sender has stored CHUNK_FORGOTTEN: its buffer may be used again.
struct read_record {
  put_record where;
  std::uint64_t packet = 0;  // offset of the packet's header in the sender's arena
  std::uint64_t source = 0;  // address in the sender; an argument of the kernel only
  std::uint32_t size = 0;    // bytes
  std::uint32_t reserved = 0;
};
inline constexpr std::uint32_t CHUNK_NOT_READ = CHUNK_REFUSED - 1;
inline constexpr std::uint32_t CHUNK_FORGOTTEN = CHUNK_REFUSED - 2;

// Asks the target to put a part of its region into a region of the asker.
struct get_record {
  put_record from;                  // the target's region
  std::uint64_t size = 0;           // bytes
  std::uint32_t to_slot = 0;        // the requester's region, registered for this get, or a name of
  std::uint32_t to_generation = 0;  // short_gets; either names the get itself
};

// The target of a get refuses it.
struct get_failure {
  std::uint32_t to_slot = 0;  // as in get_record
  std::uint32_t to_generation = 0;
};

// The position of the first message of a lane that its consumer is not done with.
using consumed_count = std::atomic<std::uint32_t>;

// The lanes from one device to one peer. Lives in the sender's arena; written by the sender, read
// by the peer, except for the counts.
struct lane_directory {
  // Offset of each lane's slots, a whole page, plus the number of the slot where it starts. Set
  // once.
  std::array<std::atomic<std::uint64_t>, LANES> lane{};
  // Written by the consumer, seldom; each has a line, since lanes belong to different threads.
  struct alignas(base::CACHE_LINE) line {
    consumed_count value{0};
  };
  std::array<line, LANES> consumed{};
};

// The directories for one peer, one per device. Lives in the sender's arena; its offset is in the
// hello.
struct device_table {
  std::array<std::atomic<std::uint64_t>, MAX_DEVICES> directory{};  // offset, set once
};

// One per fabric, in its own arena. The only words that all peers write.
struct control_page {
  static constexpr std::uint64_t MAGIC = 0x6c63692d73686d31;
  std::uint64_t magic = MAGIC;
  // Counted up by a peer (or by ourselves) when device k should look at the directories again. A
  // line each: a device reads its word at every poll.
  struct alignas(base::CACHE_LINE) word {
    std::atomic<std::uint32_t> count{0};
  };
  std::array<word, MAX_DEVICES> announce{};
};

}  // namespace lci::shm
