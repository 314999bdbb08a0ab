// The two tables of a staged transfer, which staged.hpp walks. docs/states.md is printed from them.
// Threads: immutable; a state moves under the lock of its transfers, and the thread that has moved
// it does what the row says without that lock.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "lci/base/state_table.hpp"

namespace lci::proto::gpu {

// What a row of either table has its mover do.
enum class staged_action : std::uint8_t {
  nothing,
  drop,     // what came was not due: it is counted
  begin,    // sender: fill the first slots; receiver: lend slots
  copy,     // the piece whose slot this is
  report,   // say why; it comes once
  finish,   // the transfer is whole
  give_up,  // it is not, and nothing copies for it any more
};

enum class staged_send_state : std::uint8_t {
  starting,     // has no slots yet, or needs none and looks at where they are
  filling,      // pieces are on their way, and nothing else is waited for
  filling_put,  // the same, and an ack
  filled,       // every piece is in its slot, and an ack is waited for
  failing,      // copies are waited for
  finished,
  failed
};
enum class staged_send_event : std::uint8_t {
  begin,      // it has what it needs
  begin_put,  // the same, of a put
  credit,     // a slot is free for its next piece
  ack,        // the target has all
  fail,       // a copy or the peer has failed, the peer has given up, there is no memory
  quiet,      // nothing copies now
  last        // the same, and every piece is in its slot
};

enum class staged_recv_state : std::uint8_t {
  starting,  // has no slots yet
  emptying,  // pieces come
  failing,   // copies are waited for, and a word about every slot that the sender may write
  finished,
  failed
};
enum class staged_recv_event : std::uint8_t {
  lend,         // there are slots
  piece,        // one is in the slot that waits for it
  fail,         // a copy has failed; the sender may write on
  sender_over,  // the sender, or our memory, has failed: no slot is written any more
  quiet,        // nothing copies now, and no slot is lent
  last          // the same, and every piece is in its place
};

using staged_send_row = base::transition<staged_send_state, staged_send_event, staged_action>;
using staged_recv_row = base::transition<staged_recv_state, staged_recv_event, staged_action>;

inline constexpr std::array<staged_send_row, 35> STAGED_SEND = [] {
  using in = staged_send_state;
  using on = staged_send_event;
  using then = staged_action;
  return std::array<staged_send_row, 35>{{
      {in::starting, on::begin, in::filling, then::begin, "fill the first slots"},
      {in::starting, on::begin_put, in::filling_put, then::begin, "fill the first slots"},
      {in::starting, on::credit, in::starting, then::drop, "no slot was filled"},
      {in::starting, on::ack, in::starting, then::drop, "nothing was sent"},
      {in::starting, on::fail, in::failing, then::report, "report the reason"},
      {in::starting, on::quiet, in::starting, then::nothing, "it waits for slots"},
      {in::starting, on::last, in::starting, then::nothing, "no slot was filled"},
      {in::filling, on::begin, in::filling, then::nothing, "it has begun"},
      {in::filling, on::begin_put, in::filling, then::nothing, "it has begun"},
      {in::filling, on::credit, in::filling, then::copy, "fill the slot with its next piece"},
      {in::filling, on::ack, in::filling, then::drop, "no ack is expected"},
      {in::filling, on::fail, in::failing, then::report, "report the reason"},
      {in::filling, on::quiet, in::filling, then::nothing, "the receiver empties slots"},
      {in::filling, on::last, in::finished, then::finish, "notify the rendezvous"},
      {in::filling_put, on::begin, in::filling_put, then::nothing, "it has begun"},
      {in::filling_put, on::begin_put, in::filling_put, then::nothing, "it has begun"},
      {in::filling_put, on::credit, in::filling_put, then::copy,
       "fill the slot with its next piece"},
      {in::filling_put, on::ack, in::filling, then::nothing,
       "it came before the end of the copy was seen here"},
      {in::filling_put, on::fail, in::failing, then::report, "report the reason"},
      {in::filling_put, on::quiet, in::filling_put, then::nothing, "the receiver empties slots"},
      {in::filling_put, on::last, in::filled, then::nothing, "it waits for the ack"},
      {in::filled, on::begin, in::filled, then::nothing, "it has begun"},
      {in::filled, on::begin_put, in::filled, then::nothing, "it has begun"},
      {in::filled, on::credit, in::filled, then::drop, "no piece is left"},
      {in::filled, on::ack, in::finished, then::finish, "notify the rendezvous"},
      {in::filled, on::fail, in::failing, then::report, "report the reason"},
      {in::filled, on::quiet, in::filled, then::nothing, "it waits for the ack"},
      {in::filled, on::last, in::filled, then::nothing, "it waits for the ack"},
      {in::failing, on::begin, in::failing, then::nothing, "no slot is filled any more"},
      {in::failing, on::begin_put, in::failing, then::nothing, "no slot is filled any more"},
      {in::failing, on::credit, in::failing, then::drop, "no slot is filled any more"},
      {in::failing, on::ack, in::failing, then::nothing, "it has failed already"},
      {in::failing, on::fail, in::failing, then::nothing, "it was reported already"},
      {in::failing, on::quiet, in::failed, then::give_up,
       "tell the receiver that no slot will be written any more"},
      {in::failing, on::last, in::failed, then::give_up,
       "tell the receiver that no slot will be written any more"},
  }};
}();
static_assert(base::table_is_sound(STAGED_SEND, staged_send_state::finished, 7, 7));

inline constexpr std::array<staged_recv_row, 18> STAGED_RECV = [] {
  using in = staged_recv_state;
  using on = staged_recv_event;
  using then = staged_action;
  return std::array<staged_recv_row, 18>{{
      {in::starting, on::lend, in::emptying, then::begin, "tell the sender where the slots are"},
      {in::starting, on::piece, in::starting, then::drop, "no slot is lent"},
      {in::starting, on::fail, in::failing, then::report, "report the reason"},
      {in::starting, on::sender_over, in::failing, then::report, "report the reason"},
      {in::starting, on::quiet, in::starting, then::nothing, "it waits for slots"},
      {in::starting, on::last, in::starting, then::nothing, "no piece has come"},
      {in::emptying, on::lend, in::emptying, then::nothing, "it has slots"},
      {in::emptying, on::piece, in::emptying, then::copy, "copy the piece to its place"},
      {in::emptying, on::fail, in::failing, then::report, "report the reason, also to the sender"},
      {in::emptying, on::sender_over, in::failing, then::report, "report the reason"},
      {in::emptying, on::quiet, in::emptying, then::nothing, "it waits for pieces"},
      {in::emptying, on::last, in::finished, then::finish,
       "signal the receiver's object; acknowledge a put"},
      {in::failing, on::lend, in::failing, then::nothing, "the slots go back unused"},
      {in::failing, on::piece, in::failing, then::nothing, "its slot is not lent any more"},
      {in::failing, on::fail, in::failing, then::nothing, "it was reported already"},
      {in::failing, on::sender_over, in::failing, then::nothing, "no slot is lent any more"},
      {in::failing, on::quiet, in::failed, then::give_up, "give the slots back"},
      {in::failing, on::last, in::failed, then::give_up, "give the slots back"},
  }};
}();
static_assert(base::table_is_sound(STAGED_RECV, staged_recv_state::finished, 5, 6));

constexpr bool has_ended(staged_send_state s) noexcept { return s >= staged_send_state::finished; }
constexpr bool has_ended(staged_recv_state s) noexcept { return s >= staged_recv_state::finished; }

// ---- for people ----

constexpr const char* name_of(staged_send_state s) noexcept {
  constexpr const char* NAMES[] = {"starting", "filling",  "filling_put", "filled",
                                   "failing",  "finished", "failed"};
  return NAMES[static_cast<std::size_t>(s)];
}
constexpr const char* name_of(staged_send_event e) noexcept {
  constexpr const char* NAMES[] = {"begin", "begin_put", "credit", "ack", "fail", "quiet", "last"};
  return NAMES[static_cast<std::size_t>(e)];
}
constexpr const char* name_of(staged_recv_state s) noexcept {
  constexpr const char* NAMES[] = {"starting", "emptying", "failing", "finished", "failed"};
  return NAMES[static_cast<std::size_t>(s)];
}
constexpr const char* name_of(staged_recv_event e) noexcept {
  constexpr const char* NAMES[] = {"lend", "piece", "fail", "sender_over", "quiet", "last"};
  return NAMES[static_cast<std::size_t>(e)];
}

}  // namespace lci::proto::gpu
