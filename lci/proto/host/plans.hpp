// What the two ends of an operation bring that takes several messages. Threads: plain records.
#pragma once

#include <cstdint>

#include "lci/mem/memory_kind.hpp"
#include "lci/mem/packet.hpp"
#include "lci/mem/region_table.hpp"
#include "lci/proto/engine/op.hpp"

namespace lci {
class allocator_base_t;
namespace mem {
struct far_packet;
}
}  // namespace lci

namespace lci::proto {

class host_context;
struct outgoing;
struct recv_plan;

// What a sender brings.
struct send_plan {
  int rank = -1;
  user_side user;
  void* buffer = nullptr;  // user.status has the size and the tag
  mem::mem_kind kind = mem::mem_kind::host;
  int gpu = -1;  // of device memory
  std::uint64_t local_key = 0;
  bool registered_here = false;   // local_key goes with the operation
  bool off_network = false;       // memory that the network could not register
  mem::packet* packet = nullptr;  // the message is in a packet, which goes with the operation
  bool is_put = false;            // staged put: over when the target has everything
  bool has_receive = false;       // a send: the target grants it when a receive matches
  std::uint64_t began = 0;        // ticks, of a way whose time is to be told; else 0
};

// What receives: tells at the end who is to be told, or gives back what the destination was.
struct receiver {
  void (*end)(host_context& host, const recv_plan& plan, bool ok);
};
extern const receiver POSTED;          // a receive that was matched
extern const receiver ACTIVE_MESSAGE;  // the buffer is ours until it is delivered

// What a receiver brings.
struct recv_plan {
  int rank = -1;
  user_side user;                   // user.status is what will be signalled
  host_context* counted = nullptr;  // where the receive stands in the count of open operations;
                                    // null for active messages
  mem::region_name region;  // registration that holds the destination; none: made for this message
  std::uint64_t region_offset = 0;
  const receiver* what = &POSTED;
  mem::mem_kind kind = mem::mem_kind::host;  // of the destination
  int gpu = -1;                              // of device memory
  bool from_device = false;     // the sender's data is in GPU memory that no network reads
  std::uint64_t local_key = 0;  // of the destination, if it was registered for this message
  std::uint32_t imm = 0;        // of a put: to be signalled
  allocator_base_t* allocator = nullptr;  // of an active message's buffer; null: it is a packet,
  mem::far_packet* payload = nullptr;     // of this one, if its payload is apart
  bool is_in_turn = false;                // an active message that counts in host_context::window
  std::uint64_t began = 0;                // as in send_plan
};

// Ends a receive that is in no table any more: tells the user, or gives back what it held.
inline void end_receive(host_context& host, const recv_plan& plan, bool ok) {
  plan.what->end(host, plan, ok);
}

}  // namespace lci::proto
