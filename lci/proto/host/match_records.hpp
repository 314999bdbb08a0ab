// What waits in a matching engine: receives, and messages that no receive has met. Threads: a
// record belongs to one thread at a time; it passes on through a matching engine.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "lci/base/copy.hpp"
#include "lci/data/object_pool.hpp"
#include "lci/match/entry.hpp"
#include "lci/mem/memory_kind.hpp"
#include "lci/mem/packet.hpp"
#include "lci/mem/packet_pool.hpp"
#include "lci/mem/region_table.hpp"
#include "lci/net/backend.hpp"
#include "lci/proto/engine/core.hpp"
#include "lci/proto/engine/op.hpp"
#include "lci/proto/host/nobody.hpp"

namespace lci::proto {

class host_context;

// A receive that waits in a matching engine.
struct alignas(base::CACHE_LINE) receive {
  receive() noexcept {
    filed.value = this;
    filed.is_lent = true;
  }
  receive(const receive&) = delete;
  receive& operator=(const receive&) = delete;

  receive* pool_next = nullptr;
  match::entry filed;            // lent to the engine while it waits there
  user_side user;                // status.buffer and status.size describe the receive buffer
  host_context* host = nullptr;  // counts as outstanding here
  mem::region_name region;       // registration the buffer lies in, if the user named one
  std::uint64_t region_offset = 0;
  mem::mem_kind kind = mem::mem_kind::host;  // of the buffer
  std::uint16_t thread = 0;                  // that posted it; a hint
  int gpu = -1;                              // of device memory
  wire::name preposted;  // under which the accelerator has told its sender of it; none: {}
};

// A message that waits in a matching engine: small ones are kept in the record, larger ones in the
// packet they came in or one of our own, and a rendezvous leaves only its request here.
struct message {
  static constexpr std::size_t INLINE_BYTES = 128;
  enum class form : std::uint8_t { inlined, packet, rts };

  message* pool_next = nullptr;
  form what = form::inlined;
  int rank = -1;
  tag_t tag = 0;
  std::size_t size = 0;
  const std::byte* data = nullptr;  // in `bytes`, in the packet or apart
  mem::packet* packet = nullptr;    // to be released after use
  host_context* host = nullptr;  // where it arrived, null once it has ended; a rendezvous answers
                                 // there
  const net::fabric* left_by = nullptr;  // of the device that has ended
  wire::name sender;                     // of a rendezvous
  bool from_device = false;              // of a rendezvous: the data is in GPU memory
  receive* met = nullptr;                // of a rendezvous that is to be answered later
  std::byte bytes[INLINE_BYTES];
  // What is longer than our packets, since those of its sender are larger. It has a packet all the
  // same, so that no more messages wait than there are packets.
  std::unique_ptr<std::byte[]> apart;
};

// What is told of a receive that a message has met.
inline status_t outcome(const receive& to, int rank, tag_t tag, std::size_t size) noexcept {
  status_t status = to.user.status;
  status.error = errorcode_t::done;
  status.rank = rank;
  status.tag = tag;
  status.size = size;
  return status;
}

// Status of a message at its target. Written in pairs of words: it is passed by value, compilers
// copy it in pairs, and a load that spans two stores waits until both have left the core. See
// docs/decisions/0010-way-of-a-small-message.md.
inline void set_arrival(status_t& status, int rank, tag_t tag, void* buffer,
                        std::size_t size) noexcept {
  static_assert(offsetof(status_t, error) == 0 && offsetof(status_t, rank) == 4 &&
                offsetof(status_t, buffer) == 8 && offsetof(status_t, size) == 16 &&
                offsetof(status_t, tag) == 24);
  const auto code = static_cast<std::uint32_t>(errorcode_t::done);
  base::store_pair(&status,
                   std::bit_cast<std::uint64_t>(std::array{code, static_cast<std::uint32_t>(rank)}),
                   reinterpret_cast<std::uintptr_t>(buffer));
  base::store_pair(&status.size, size, tag);
}
inline status_t arrival_status(int rank, tag_t tag, void* buffer, std::size_t size) noexcept {
  status_t status(errorcode_t::done);
  set_arrival(status, rank, tag, buffer, size);
  status.user_context = nullptr;
  return status;
}

// What the host protocols of one runtime share. Owned beside core; threads: shared.
struct host_common {
  explicit host_common(proto::core& of) noexcept : core(of), unwanted(of) {}
  proto::core& core;
  nobody unwanted;  // stands for empty objects that have a number
  data::object_pool<receive> receives;
  data::object_pool<message> messages;
};

// Gives home a message, and the packet that it is in.
inline void give_back(host_common& shared, message& m) noexcept {
  if (m.packet != nullptr) {
    mem::release_packet(shared.core.arena, m.packet);
    m.apart.reset();
  }
  m.packet = nullptr;
  shared.messages.put(&m);
}

}  // namespace lci::proto
