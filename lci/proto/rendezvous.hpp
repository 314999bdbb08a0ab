// Rendezvous: a message too large to be sent without asking. The sender says what it has (RTS), the
// receiver where it wants it (RTR), the sender writes the data there and says so (immediate data
// with the last write, or FIN). docs/states.md is printed from the tables below. Threads: a send
// state is entered by its poster, which then sends the RTS; all later events come from the
// channel's polling thread. A receive state likewise after its RTR.
#pragma once

#include <array>
#include <atomic>

#include "lci/data/slot_table.hpp"
#include "lci/proto/op.hpp"
#include "lci/proto/state_table.hpp"
#include "lci/proto/wire.hpp"

namespace lci {
class comp_impl_t;
}

namespace lci::proto {

class channel;
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
  std::uint64_t local_key = 0;
  bool registered_here = false;   // local_key goes with the operation
  mem::packet* packet = nullptr;  // the message is in a packet, which goes with the operation
};

// What a receiver brings.
struct recv_plan {
  int rank = -1;
  user_side user;              // user.status is what will be signalled
  channel* counted = nullptr;  // where the receive stands in the count of open operations; null for
                               // active messages
  mem::region_name region;  // registration that holds the destination; none: made for this message
  std::uint64_t region_offset = 0;
};

// The sender's side of one message. Found by name, so whoever looks for the states of a dead peer
// reads `rank` while others work.
struct send_side {
  explicit send_side(const send_plan& p) : plan(p), rank(p.rank) {}
  send_state state = send_state::rts_sent;
  send_plan plan;
  port* via = nullptr;
  wire::rtr ready;  // of the RTR that is being acted on
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
// Starts as a receiver of plan.user.status.size bytes into plan.user.status.buffer: tells the
// sender where to write.
void start_receive(channel& via, wire::name sender, const recv_plan& plan);
// Events. A name that finds nothing (late, repeated or forged) is ignored.
void on_rtr(channel& via, int rank, const wire::rtr& body);
void on_written(channel& via, wire::name sender_state, bool ok);
void on_fin(channel& via, int rank, wire::name receiver_state);
void on_fin_imm(channel& via, int rank, std::uint32_t argument);
void on_peer_gone(channel& via, int rank);

}  // namespace lci::proto
