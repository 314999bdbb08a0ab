// Rendezvous: a message too large to be sent without asking. The sender says what it has (RTS), the
// receiver where it wants it (RTR), the sender writes the data there and says so (immediate data
// with the last write, or FIN). docs/states.md is printed from the tables below. Threads: a send
// state is entered by its poster, which then sends the RTS; a receive state likewise, with its RTR.
// Later events come from whichever thread polls, finds that a write cannot be made, or notices that
// the peer has ended. Always true: a state moves under the lock, and the thread that has moved it
// does alone what the row says, and forgets it at an end.
#pragma once

#include <array>
#include <atomic>
#include <exception>

#include "lci/base/gate.hpp"
#include "lci/base/spinlock.hpp"
#include "lci/base/state_table.hpp"
#include "lci/data/slot_table.hpp"
#include "lci/proto/engine/op.hpp"
#include "lci/proto/engine/wire.hpp"
#include "lci/proto/host/plans.hpp"

namespace lci::proto {

class host_context;

enum class send_state : std::uint8_t { rts_sent, writing, finished, failed };
enum class send_event : std::uint8_t { rtr, unreachable, written, write_failed, peer_ended };
enum class recv_state : std::uint8_t { rtr_sent, finished, restaged, failed };
enum class recv_event : std::uint8_t { fin, restage, peer_ended };

// The sender's side of one message. Found by name, so the code that looks for the states of a dead
// peer reads `rank` while others work.
struct send_side {
  explicit send_side(const send_plan& p) : plan(p), rank(p.rank) {}
  send_state state = send_state::rts_sent;
  send_plan plan;
  post_queue* queue = nullptr;
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
  wire::name sender;             // of a restage
  const std::atomic<int> rank;
};

using send_table = data::slot_table<send_side>;
using recv_table = data::slot_table<recv_side>;

struct rendezvous_states {
  send_table sends;
  recv_table recvs;
  // A state that is being made is its maker's until the request is out; the search for the states
  // of a dead peer runs while none is being made.
  base::gate making;
  base::spinlock moving;  // guards what the tables hold, from the request on
};

using send_action = void (*)(host_context&, wire::name, send_side&);
using recv_action = void (*)(host_context&, wire::name, recv_side&);
using send_row = base::transition<send_state, send_event, send_action>;
using recv_row = base::transition<recv_state, recv_event, recv_action>;

// The tables, for the code that walks them and the program that prints them.
extern const std::array<send_row, 10> SEND_TABLE;
extern const std::array<recv_row, 3> RECV_TABLE;
const char* name_of(send_state s) noexcept;
const char* name_of(send_event e) noexcept;
const char* name_of(recv_state s) noexcept;
const char* name_of(recv_event e) noexcept;

// What the data is written with.
extern const protocol RENDEZVOUS_WRITE;

// Starts as a sender. posted, or, if the post may be refused, retry with nothing left behind.
errorcode_t start_send(host_context& host, post_queue& queue, rcomp_t rcomp, const send_plan& plan,
                       bool may_retry);
// The same for a put that passes through host memory of the target.
errorcode_t start_staged_put(host_context& host, post_queue& queue, const send_plan& plan,
                             wire::put_request body, bool may_retry);
// Starts as a receiver of plan.user.status.size bytes into plan.user.status.buffer: tells the
// sender where to write. Throws std::bad_alloc: nothing has changed.
void start_receive(host_context& host, wire::name sender, const recv_plan& plan);
// Events. A name that finds nothing (late, repeated or forged) is ignored.
// Throws std::bad_alloc: nothing has changed.
void on_rtr(host_context& host, int rank, const wire::rtr& body);
void on_written(host_context& host, wire::name sender_state, bool ok);
void on_fin(host_context& host, int rank, const wire::fin& body);
void on_fin_imm(host_context& host, int rank, std::uint32_t argument);
// The sender cannot reach the destination by itself.
void on_restage(host_context& host, int rank, const wire::restage& body);
// The other side has given up.
void on_drop_send(host_context& host, int rank, const wire::drop& body);
void on_drop_receive(host_context& host, int rank, const wire::drop& body);
// That rank has ended: it answers no request, or writes into no receive any more.
void end_sends_to(host_context& host, int rank);
// But for those of which a GPU has said that they are whole.
void end_receives_from(host_context& host, int rank);

// ---- for the accelerator ----

// The transfer that writes the data where the RTR says, made of the side's record.
transfer* make_write(host_context& host, wire::name self, send_side& side) noexcept;
// The receive cannot be carried out, and both ends are told.
void give_up(host_context& host, wire::name sender, const recv_plan& plan,
             std::exception_ptr why) noexcept;

}  // namespace lci::proto
