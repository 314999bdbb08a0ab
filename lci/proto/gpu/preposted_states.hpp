// The table of a pre-posted receive at the rank that receives, which preposted_receives.hpp walks.
// docs/states.md is printed from it. Threads: immutable; a state moves under the lock of the
// receives. What the sender knows of one is there or not, and needs no table.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "lci/base/state_table.hpp"

namespace lci::proto::gpu {

enum class preposted_state : std::uint8_t {
  open,          // its sender may claim it
  lost,          // the sender has claimed it and not said so; the record is home
  claimed,       // the sender writes
  claimed_home,  // the same, and the record is home
  ended,         // every byte is there, or will not be; the record is on its way home
  free           // the slot may be used again
};
enum class preposted_event : std::uint8_t {
  taken_back,  // no sender has claimed it, and none will
  home,        // the record has left its matching engine
  claim,       // the sender says that it writes, or has failed
  over         // the bytes are there, or the sender has failed
};
enum class preposted_action : std::uint8_t {
  nothing,
  drop,    // what came was not due: it is counted
  begin,   // the word goes back, and the record is fetched
  free,    // the slot gives back what it holds
  signal,  // the receive ends
  signal_and_free
};

using preposted_row = base::transition<preposted_state, preposted_event, preposted_action>;

inline constexpr std::array<preposted_row, 20> PREPOSTED = [] {
  using in = preposted_state;
  using on = preposted_event;
  using then = preposted_action;
  return std::array<preposted_row, 20>{{
      {in::open, on::taken_back, in::free, then::free, "the receive waits like any other"},
      {in::open, on::home, in::lost, then::nothing, "it waits for the sender's claim"},
      {in::open, on::claim, in::claimed, then::begin,
       "fetch the record from its matching engine, unless a message has it"},
      {in::open, on::over, in::open, then::drop, "nobody has claimed it"},
      {in::lost, on::taken_back, in::lost, then::nothing, "it belongs to the sender"},
      {in::lost, on::home, in::lost, then::nothing, "it is home"},
      {in::lost, on::claim, in::claimed_home, then::begin, "it waits for the bytes"},
      {in::lost, on::over, in::lost, then::drop, "no claim was received"},
      {in::claimed, on::taken_back, in::claimed, then::nothing, "it belongs to the sender"},
      {in::claimed, on::home, in::claimed_home, then::nothing, "it waits for the bytes"},
      {in::claimed, on::claim, in::claimed, then::drop, "it was received before"},
      {in::claimed, on::over, in::ended, then::signal, "signal the receiver's object"},
      {in::claimed_home, on::taken_back, in::claimed_home, then::nothing,
       "it belongs to the sender"},
      {in::claimed_home, on::home, in::claimed_home, then::nothing, "it is home"},
      {in::claimed_home, on::claim, in::claimed_home, then::drop, "it was received before"},
      {in::claimed_home, on::over, in::free, then::signal_and_free, "signal the receiver's object"},
      {in::ended, on::taken_back, in::ended, then::nothing, "it has ended"},
      {in::ended, on::home, in::free, then::free, "nobody refers to the slot any more"},
      {in::ended, on::claim, in::ended, then::drop, "it has ended"},
      {in::ended, on::over, in::ended, then::drop, "it was signalled before"},
  }};
}();
static_assert(base::table_is_sound(PREPOSTED, preposted_state::free, 6, 4));

// ---- for people ----

constexpr const char* name_of(preposted_state s) noexcept {
  constexpr const char* NAMES[] = {"open", "lost", "claimed", "claimed_home", "ended", "free"};
  return NAMES[static_cast<std::size_t>(s)];
}
constexpr const char* name_of(preposted_event e) noexcept {
  constexpr const char* NAMES[] = {"taken_back", "home", "claim", "over"};
  return NAMES[static_cast<std::size_t>(e)];
}

}  // namespace lci::proto::gpu
