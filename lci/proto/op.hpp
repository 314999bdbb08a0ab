// The records of operations under way. They come from pools, so that no message needs the heap.
// Threads: a record belongs to one thread at a time; it passes on through a queue, a matching
// engine or a backend.
#pragma once

#include <cstddef>
#include <cstdint>

#include "lci/base/platform.hpp"
#include "lci/mem/memory_kind.hpp"
#include "lci/mem/packet.hpp"
#include "lci/mem/region_table.hpp"
#include "lci/net/backend.hpp"
#include "lci/proto/news.hpp"
#include "lci/proto/wire.hpp"
#include "lci/status.hpp"

namespace lci {
class comp_impl_t;
}

namespace lci::proto {

class channel;
class direct_copy;
class port;
class matcher;

inline bool is_retry(errorcode_t code) noexcept { return error_t(code).is_retry(); }

// Who asked for an operation and what they will be told when it completes. comp null: nobody waits.
struct user_side {
  comp_impl_t* comp = nullptr;
  status_t status;
  bool is_waiter = false;   // comp is a proto::waiter: a call waits, and hears of failures too
  bool is_arrival = false;  // of a message: nothing that was posted here
  news what = news::operation;
  std::uint32_t number = 0;  // of the operation, as comp::renewal counts
  std::uint32_t serial = 0;  // of comp when it was given; afterwards another may be in its place
};

// The operation of this object, which may be null, will not complete, and nobody tells: one of the
// library's own hears it.
void abandon(comp_impl_t* comp) noexcept;

// A receive that waits in a matching engine.
struct receive {
  receive* pool_next = nullptr;
  user_side user;           // status.buffer and status.size describe the receive buffer
  channel* via = nullptr;   // counts as outstanding here
  mem::region_name region;  // registration the buffer lies in, if the user named one
  std::uint64_t region_offset = 0;
  mem::mem_kind kind = mem::mem_kind::host;  // of the buffer
  int gpu = -1;                              // of device memory
  wire::name offer;                          // in via->offered, while it is filed; none: {}
};

// A message that waits in a matching engine: small ones are kept in the record, larger ones in the
// packet they came in, and a rendezvous leaves only its request here.
struct message {
  static constexpr std::size_t INLINE_BYTES = 128;
  enum class form : std::uint8_t { inlined, packet, rts };

  message* pool_next = nullptr;
  form what = form::inlined;
  int rank = -1;
  tag_t tag = 0;
  std::size_t size = 0;
  const std::byte* data = nullptr;  // in `bytes` or in the packet
  mem::packet* packet = nullptr;    // to be released after use
  channel* via = nullptr;  // where it arrived, null once that is gone; a rendezvous answers there
  const net::fabric* left_by = nullptr;  // of the channel that is gone
  wire::name sender;                     // of a rendezvous
  bool from_device = false;              // of a rendezvous: the data is in GPU memory
  receive* met = nullptr;                // of a rendezvous that is to be answered later
  std::byte bytes[INLINE_BYTES];
};

// What a transfer is to do once all of its pieces are there.
enum class ending : std::uint8_t {
  none,
  immediate,   // the target gets `imm`
  rendezvous,  // the target's receive state is told; our send state has its data written
  piece,       // of a staged transfer, which is told
  offer        // the target's offer is told
};

// A put, get or zero-copy send on its way. Pieces of at most max_rma follow each other: the next is
// posted when the one before completed, so only one thread has the record at a time.
struct transfer {
  enum class verb : std::uint8_t { send, put, get };

  transfer* pool_next = nullptr;
  transfer* next = nullptr;  // link in a list of its channel
  port* via = nullptr;
  user_side user;
  net::net_op op;  // rank, keys; buffer, size and remote_offset are those of the current piece
  direct_copy* direct = nullptr;  // set: a GPU copies the whole, the network does nothing
  int gpu = -1;                   // of device memory
  verb what = verb::put;
  ending end = ending::none;
  bool begun = false;  // its first piece was posted
  bool failed = false;
  bool registered_here = false;  // op.local_key was made for this operation and goes with it
  bool counted = false;          // stands in the channel's count of outstanding operations
  std::byte* base = nullptr;
  std::size_t total = 0;
  std::size_t at = 0;             // bytes that completed; start of the current piece
  std::uint64_t remote_base = 0;  // offset of byte 0 in the remote registration
  std::uint32_t imm = 0;          // with ending immediate, or the fin_imm of a rendezvous
  std::uint64_t piece = 0;        // with ending piece: which
  bool is_direct = false;         // `direct` is or was set
  bool is_flagged = false;        // the GPU itself tells the target
  mem::packet* packet = nullptr;  // copy of the user's bytes; released at the end
  wire::name local_state;         // rendezvous: our send state; piece: our staged state
  wire::name peer_state;          // rendezvous: the receiver's state
};

}  // namespace lci::proto
