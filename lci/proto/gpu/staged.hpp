// GPU memory through host memory, for whatever no copy engine reaches from end to end, over any
// network. The receiver lends slots in host memory; the sender fills them in order, piece k in slot
// k % count, and says so; the receiver empties each one into its place and says that too. Where the
// network maps the receiver's arena here, the GPU or the processor writes the slots in place; else
// pieces are put. Copies in and out run at the same time.
//
//   sender    [request] -> rtr -> fill, piece, fill, piece ... -> over (a put: at the ack)
//   receiver  rtr (a get: in the request) -> piece: empty, credit ... -> over
//
// Both ends walk the tables of staged_states.hpp.
//
// One per device. Threads: shared; a short lock guards the states, and no copy, message or user's
// code runs under it. Always true: a transfer ends when nothing copies for it any more, also when
// its peer has ended, and the thread that has moved it to its end erases it; a piece is accepted
// once, for the slot that waits for it. A receiver keeps its slots until nothing writes them any
// more, also when one end has failed: until each was announced or the sender says that it is over.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <list>
#include <string_view>

#include "lci/base/spinlock.hpp"
#include "lci/data/slot_table.hpp"
#include "lci/proto/engine/part.hpp"
#include "lci/proto/gpu/devices.hpp"
#include "lci/proto/gpu/flag_words.hpp"
#include "lci/proto/gpu/staged_states.hpp"
#include "lci/proto/gpu/staging_store.hpp"
#include "lci/proto/host/plans.hpp"

namespace lci::proto::gpu {

struct context;

// What receives in these.
extern const receiver PUT_RECEIVER;  // of a put: one of our regions, `imm` is signalled
extern const receiver GET_RECEIVER;  // the caller of a get

class staged_transfers {
 public:
  static constexpr std::size_t MAX_SLOTS = 4;

  explicit staged_transfers(context& ctx) noexcept : ctx_(ctx) {}

  // All three throw std::bad_alloc, and nothing has changed then.
  // A receiver of plan.user.status.size > 0 bytes; `sender` is the state that gets the rtr.
  void receive(wire::name sender, const recv_plan& plan);
  // The caller of a get.
  errorcode_t get(const recv_plan& plan, const wire::get_request& body);
  // Our send state `self` got an rtr with slots. Does nothing for sizes or slots that make no
  // sense, but to fail the send.
  void send(wire::name self, const send_plan& plan, const wire::rtr& to);

  // A put of at most staging_store::SMALL bytes of GPU memory into host memory of a process that
  // maps our arena. False: no slot is free, or none is pinned.
  bool land(const send_plan& plan, wire::landing body);

  // Both throw std::bad_alloc: nothing has changed.
  void on_put_request(int rank, const wire::put_request& body);
  void on_get_request(int rank, const wire::get_request& body);
  void on_piece(int rank, const wire::piece& body) noexcept;
  void on_credit(int rank, const wire::credit& body) noexcept;
  void on_ack(int rank, const wire::ack& body) noexcept;
  void on_drop_send(int rank, wire::name sender) noexcept;
  void on_drop_receive(int rank, wire::name receiver) noexcept;
  // That rank has ended; of the second: and all that it had sent here is in. What has got all its
  // pieces goes on, as does a put that is acknowledged or, before all is in, may be.
  void end_sends_to(int rank, peer_end how) noexcept;
  void end_receives_from(int rank) noexcept;
  // A piece that the network carries is there, or will not be, which is reported elsewhere.
  void arrived(wire::name name, std::uint64_t index, bool ok) noexcept {
    filled(name, index, ok ? "" : "the network lost it", !ok);
  }
  // Those that wait for slots; answers how many got some.
  std::size_t serve_waiting() noexcept;
  bool is_quiet() const noexcept { return sends_.size() == 0 && recvs_.size() == 0; }

 private:
  // A slot that is being filled or emptied.
  struct slot_copy final : device_job {
    void ended(std::string_view error) noexcept override;
    staged_transfers* home = nullptr;
    wire::name owner;
    std::uint64_t index = 0;  // of the piece that the slot holds or waits for
    bool is_busy = false;
    bool is_lent = false;  // receiver: the sender may write it
    bool is_send = false;
  };
  struct side {
    int rank = -1;
    std::size_t size = 0;
    std::uint64_t pieces = 0, done = 0;
    wire::slots through;
    unsigned busy = 0;  // slots that are copied, and threads that look for slots
    slot_set* set = nullptr;
    std::array<slot_copy, MAX_SLOTS> slot;

    std::size_t bytes_of(std::uint64_t index) const noexcept;
    std::size_t number_of(const slot_copy& one) const noexcept {
      return static_cast<std::size_t>(&one - slot.data());
    }
    bool begin(std::size_t bytes, wire::slots cut) noexcept;
    bool is_lent() const noexcept {
      return std::any_of(slot.begin(), slot.end(), [](const slot_copy& s) { return s.is_lent; });
    }
  };
  struct send_side : side {
    using event = staged_send_event;
    static constexpr auto& TABLE = STAGED_SEND;
    static constexpr event PEER_OVER = event::fail;
    staged_send_state state = staged_send_state::starting;
    send_plan plan;
    wire::name self;             // our rendezvous state; none for the answer to a get
    wire::name receiver;         // staged state there
    net::remote_key key;         // of the slots
    net::remote_target at;       // the same for the network, if the peer has said it
    std::byte* there = nullptr;  // the slots, where they are mapped here
    bool is_landing = false;     // one piece, to one of our slots
    flag_word* flag = nullptr;   // landing: which the GPU sets
    wire::landing body;          // landing without a flag: to be sent

    // What it waits for does not come from a receiver that has ended so far.
    bool ends_at(peer_end how) const noexcept;
  };
  struct recv_side : side {
    using event = staged_recv_event;
    static constexpr auto& TABLE = STAGED_RECV;
    static constexpr event PEER_OVER = event::sender_over;
    staged_recv_state state = staged_recv_state::starting;
    recv_plan plan;
    wire::name sender;       // rendezvous state that gets the rtr
    wire::name peer;         // staged state there, from the first piece
    wire::get_request body;  // of a get
    bool is_get = false;

    // Some piece was not announced.
    bool needs_sender() const noexcept;
  };

  // ---- the tables; staged_steps.hpp. Under the lock, but for end() and fail() ----

  template <class Side>
  static staged_action move_locked(Side& s, typename Side::event on) noexcept {
    return take_step(Side::TABLE, s.state, on).action;
  }
  // Null: no such transfer with that rank, or it has ended.
  template <class Side>
  static Side* find_locked(const data::slot_table<Side>& in, wire::name name, int rank) noexcept;
  // Whether nothing copies for it any more, which may be its end.
  template <class Side>
  static staged_action settle_locked(Side& s) noexcept;
  // A slot was filled or emptied. True: the error is to be reported.
  template <class Side>
  static bool copied_locked(Side& s, slot_copy& slot, std::string_view error) noexcept;
  // What a step that settled it has left to do.
  template <class Side>
  void end(wire::name name, Side& s, staged_action what) noexcept;
  // Neither the peer nor our own memory writes any more. True: that is to be reported.
  template <class Side>
  bool fail(data::slot_table<Side>& in, wire::name name, int rank) noexcept;
  // A thread that kept a transfer from ending keeps it no more.
  template <class Side>
  staged_action let_go_locked(Side& s) noexcept {
    --s.busy;
    return settle_locked(s);
  }
  template <class Side, class Begin>
  bool serve(std::list<wire::name>& waiting, data::slot_table<Side>& in, Begin&& begin) noexcept;

  static constexpr std::string_view NO_MEMORY = "there is no memory";
  void start(wire::name name, recv_side& s) noexcept;
  bool lend_slots(wire::name self, recv_side& s) noexcept;
  void end_without_sender(wire::name name, int rank) noexcept;
  void end_without_receiver(wire::name name, int rank, peer_end how) noexcept;
  bool take_slots(send_side& s, bool& never) noexcept;
  void register_source(send_plan& plan);
  void begin_send(wire::name name, send_side& s) noexcept;
  void fill(wire::name name, send_side& s, slot_copy& slot) noexcept;
  void filled(wire::name name, std::uint64_t index, std::string_view error,
              bool is_said = false) noexcept;
  void put_piece(wire::name name, send_side& s, const slot_copy& slot, std::byte* from) noexcept;
  void landed(wire::name name, std::string_view error) noexcept;
  void emptied(wire::name name, std::uint64_t index, std::string_view error) noexcept;
  void over(wire::name name, send_side& s, bool ok) noexcept;
  void over(wire::name name, recv_side& s, bool ok) noexcept;
  bool wait_for_slots(std::list<wire::name>& waiting, wire::name name) noexcept;
  void complain(int rank, std::string_view error) noexcept;

  context& ctx_;
  base::spinlock lock_;  // guards what the tables hold, and what waits
  data::slot_table<send_side> sends_;
  data::slot_table<recv_side> recvs_;
  std::list<wire::name> waiting_sends_, waiting_recvs_;  // transfers without slots
};

}  // namespace lci::proto::gpu
