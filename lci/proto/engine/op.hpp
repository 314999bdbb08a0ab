// The records of operations under way, and of the protocols that carry them. Operations come from
// pools, so that no message needs the heap. Threads: a record of an operation belongs to one thread
// at a time; it passes on through a queue or a backend. Protocols are immutable.
#pragma once

#include <cstddef>
#include <cstdint>

#include "lci/base/platform.hpp"
#include "lci/mem/memory_kind.hpp"
#include "lci/mem/packet.hpp"
#include "lci/net/backend.hpp"
#include "lci/proto/engine/news.hpp"
#include "lci/proto/engine/wire.hpp"
#include "lci/status.hpp"

namespace lci {
class comp_impl_t;
}

namespace lci::proto {

class post_queue;
struct transfer;

inline bool is_retry(errorcode_t code) noexcept { return error_t(code).is_retry(); }

// Who asked for an operation and what they will be told when it completes. comp null: none waits.
struct user_side {
  comp_impl_t* comp = nullptr;
  status_t status;
  bool is_waiter = false;   // comp is a proto::waiter: a call waits, and is told of failures too
  bool is_arrival = false;  // of a message: nothing that was posted here
  news what = news::operation;
  std::uint32_t number = 0;  // of the operation, as comp::renewal counts
  std::uint32_t serial = 0;  // of comp when it was given; afterwards another may be in its place
};

// One way to carry an operation, as its transfers need it: null where there is nothing to do. What
// posts choose from (post_protocol) says more.
struct protocol {
  const char* name;
  // Every byte is there: tells the target, and the code that waits for the transfer inside of the
  // library. False: there is no memory to tell; it is called again.
  bool (*on_complete)(transfer& move) noexcept;
  // It has failed. Why was kept, or the peer has ended.
  void (*on_abort)(transfer& move) noexcept;
  // A transfer is the whole operation: counted as open, and its user is told. False: a step of one.
  bool is_operation;
};

// Moves the bytes of a transfer in place of the network.
class carrier {
 public:
  // Takes it over: concludes it at its end, which may come before the call returns.
  virtual void start(transfer& move) noexcept = 0;
  // The transfer ends, or was taken back before it was started.
  virtual void discard(transfer& move) noexcept = 0;

 protected:
  ~carrier() = default;
};

// A put, get or zero-copy send on its way. Pieces of at most max_rma follow each other: the next is
// posted when the one before completed, so only one thread has the record at a time.
struct transfer {
  enum class verb : std::uint8_t { send, put, get };

  transfer* pool_next = nullptr;
  transfer* next = nullptr;  // link in a list of its engine
  post_queue* queue = nullptr;
  const protocol* of = nullptr;
  user_side user;
  net::net_op op;  // rank, keys; buffer, size and remote_offset are those of the current piece
  class carrier* carrier = nullptr;  // null: the network moves the bytes
  int gpu = -1;                      // of device memory
  verb what = verb::put;
  bool begun = false;  // its first piece was posted
  bool failed = false;
  std::byte* base = nullptr;
  std::size_t total = 0;
  std::size_t at = 0;             // bytes that completed; start of the current piece
  std::uint64_t remote_base = 0;  // offset of byte 0 in the remote registration
  std::uint64_t own_key = 0;      // of the buffer, made for this operation and going with it
  std::uint32_t imm = 0;          // for the target, with the last piece or behind it; 0: nothing
  mem::packet* packet = nullptr;  // copy of the user's bytes; released at the end
  void* owner = nullptr;          // what the protocol keeps its states in; its own type
  std::uint64_t piece = 0;        // which, of what the protocol has divided
  wire::name local_state;         // of the protocol: here
  wire::name peer_state;          // and at the target
};

// What is for the target goes with the last piece. Else on_complete() sends it, if there is any.
inline bool tells_with_data(const transfer& move, const net::capabilities& can) noexcept {
  return move.imm != 0 && can.write_with_immediate;
}

}  // namespace lci::proto
