// Rendezvous: a message too large to be sent without asking. The sender says what it has (RTS), the
// receiver where it wants it (RTR), the sender writes the data there and says so (immediate data
// with the last write, or FIN). docs/states.md is printed from the tables below. Threads: a send
// state is entered by its poster, which then sends the RTS; a receive state likewise, with its RTR.
// Later events come from whichever thread polls, finds that a write cannot be made, or notices that
// the peer is gone. Always true: a state moves under the lock, and who has moved it does alone what
// the row says; who has moved it to an end forgets it.
#pragma once

#include <array>
#include <atomic>
#include <exception>
#include <optional>
#include <string>

#include "lci/base/gate.hpp"
#include "lci/base/spinlock.hpp"
#include "lci/data/slot_table.hpp"
#include "lci/proto/op.hpp"
#include "lci/proto/state_table.hpp"
#include "lci/proto/wire.hpp"

namespace lci {
class allocator_base_t;
class comp_impl_t;
namespace mem {
struct far_packet;
}
}  // namespace lci

namespace lci::proto {

class channel;
class network_key;
class port;
class matcher;

enum class send_state : std::uint8_t { rts_sent, writing, finished, failed };
enum class send_event : std::uint8_t { rtr, written, write_failed, peer_gone };
enum class recv_state : std::uint8_t { rtr_sent, finished, failed };
enum class recv_event : std::uint8_t { fin, peer_gone };

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
};

// What receives: who is told at the end, and whose the destination is.
enum class receiver : std::uint8_t {
  posted,          // a receive that was matched
  active_message,  // the buffer is ours until it is delivered
  put,             // staged: a region of ours, `imm` is signalled
  get              // staged: the caller of a get
};

// What a receiver brings.
struct recv_plan {
  int rank = -1;
  user_side user;              // user.status is what will be signalled
  channel* counted = nullptr;  // where the receive stands in the count of open operations; null for
                               // active messages
  mem::region_name region;  // registration that holds the destination; none: made for this message
  std::uint64_t region_offset = 0;
  receiver what = receiver::posted;
  mem::mem_kind kind = mem::mem_kind::host;  // of the destination
  int gpu = -1;                              // of device memory
  bool from_device = false;     // the sender's data is in GPU memory that no network reads
  std::uint64_t local_key = 0;  // of the destination, if it was registered for this message
  std::uint32_t imm = 0;        // put
  allocator_base_t* allocator = nullptr;  // of an active message's buffer; null: it is a packet,
  mem::far_packet* payload = nullptr;     // of this one, if its payload is apart
};

// The sender's side of one message. Found by name, so whoever looks for the states of a dead peer
// reads `rank` while others work.
struct send_side {
  explicit send_side(const send_plan& p) : plan(p), rank(p.rank) {}
  send_state state = send_state::rts_sent;
  send_plan plan;
  port* via = nullptr;
  wire::rtr ready;             // of the RTR that is acted on
  transfer* record = nullptr;  // for the write, taken before the state moves
  transfer* write = nullptr;   // made of it
  const std::atomic<int> rank;
};

// The receiver's side.
struct recv_side {
  explicit recv_side(const recv_plan& p) : plan(p), rank(p.rank) {}
  recv_state state = recv_state::rtr_sent;
  recv_plan plan;
  bool registered_here = false;  // plan.region goes with the operation
  const std::atomic<int> rank;
};

using send_table = data::slot_table<send_side>;
using recv_table = data::slot_table<recv_side>;

struct rendezvous_states {
  send_table sends;
  recv_table recvs;
  // A state that is being made is its maker's until the request is out; who looks for the states of
  // a dead peer does so while none is being made.
  base::gate making;
  base::spinlock moving;  // guards what the tables hold, from the request on
};

using send_action = void (*)(channel&, wire::name, send_side&);
using recv_action = void (*)(channel&, wire::name, recv_side&);
using send_row = transition<send_state, send_event, send_action>;
using recv_row = transition<recv_state, recv_event, recv_action>;

// The tables, for the code that walks them and the program that prints them.
extern const std::array<send_row, 8> SEND_TABLE;
extern const std::array<recv_row, 2> RECV_TABLE;
const char* name_of(send_state s) noexcept;
const char* name_of(send_event e) noexcept;
const char* name_of(recv_state s) noexcept;
const char* name_of(recv_event e) noexcept;

// Starts as a sender. posted, or, if the post may be refused, retry with nothing left behind.
errorcode_t start_send(port& via, rcomp_t rcomp, const send_plan& plan, bool may_retry);
// The same for a put that passes through host memory of the target.
errorcode_t start_staged_put(port& via, const send_plan& plan, wire::put_request body,
                             bool may_retry);
// Starts as a receiver of plan.user.status.size bytes into plan.user.status.buffer: tells the
// sender where to write. Throws std::bad_alloc: nothing has changed.
void start_receive(channel& via, wire::name sender, const recv_plan& plan);
// Events. A name that finds nothing (late, repeated or forged) is ignored.
// Throws std::bad_alloc: nothing has changed.
void on_rtr(channel& via, int rank, const wire::rtr& body);
void on_written(channel& via, wire::name sender_state, bool ok);
void on_fin(channel& via, int rank, wire::name receiver_state);
void on_fin_imm(channel& via, int rank, std::uint32_t argument);
// The sender cannot reach the destination by itself.
void on_restage(channel& via, int rank, const wire::restage& body);
// The other side has given up.
void on_dropped_send(channel& via, int rank, wire::name sender_state);
void on_dropped_receive(channel& via, int rank, wire::name receiver_state);
// Ends a receive that is in no table any more: tells the user, or gives back what it held.
void end_receive(channel& via, const recv_plan& plan, bool ok);
void on_peer_gone(channel& via, int rank);

// ---- steps that the two source files share ----

// The transfer that writes the data where the RTR says, made of the side's record.
transfer* make_write(channel& via, wire::name self, send_side& side) noexcept;
// Forgets the state of a receiver; what it brought is the caller's.
recv_plan release(channel& via, wire::name self, recv_side& side);
// A sender whose request is out will get no answer; a receiver no data.
void fail_sender(channel& via, wire::name sender_state);
void fail_receiver(channel& via, wire::name receiver_state);
// The region of a receive into GPU memory that peers can map, under its own name or a new one.
// Nothing: it has to be staged, and the sentence says why.
std::optional<mem::region> region_to_share(channel& via, const recv_plan& plan,
                                           std::string& why_not);
// Where the data of a receive with GPU memory at one end or both is to be written, if it is.
enum class target_way : std::uint8_t {
  network,  // by the network, which has registered the destination, if need be in `key`
  gpu,      // by a GPU of the sender: into `target`
  staged,   // receive_staged()
  none      // neither may be: the receive has ended
};
target_way find_target(channel& via, wire::name sender, const recv_plan& plan, mem::region& target,
                       network_key& key, std::string& why_not);
// With gpu_path direct both ends hear that this may not be, and why. Throws std::bad_alloc.
void receive_staged(channel& via, wire::name sender, const recv_plan& plan,
                    const std::string& why_not);
// The receive cannot be carried out, and both ends hear of it.
void give_up(channel& via, wire::name sender, const recv_plan& plan,
             std::exception_ptr why) noexcept;
// GPU memory that the network does not handle goes to where the receiver says by a copy engine of
// ours.
enum class write_way : std::uint8_t {
  ready,   // by that, or by the network
  staged,  // the receiver has to make it staged
  none     // which gpu_path forbids: the send has ended, and both ends have heard of it
};
write_way prepare_write(channel& via, wire::name self, send_side& side) noexcept;

}  // namespace lci::proto
