// Protocols of several steps as data: {state, event, next state, action}. The table is the
// specification; code only walks it. Threads: immutable; which threads may run step() at once is
// the business of the state's owner. Always true, checked at compile time by table_is_sound():
// every pair of a live state and an event has exactly one row (ignoring an event is a row too),
// every state can be reached, and every live state can reach an end.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace lci::base {

template <class State, class Event, class Action>
struct transition {
  State from;
  Event on;
  State to;
  Action action;
  const char* says;  // for docs/states.md
};

template <class Table, class State, class Event>
constexpr std::size_t row_of(const Table& table, State from, Event on) noexcept {
  for (std::size_t i = 0; i < table.size(); ++i)
    if (table[i].from == from && table[i].on == on) return i;
  return table.size();
}

// Moves `state` and returns the row. `state` is not an end: the table has no row for one, and the
// look-up would run past it.
template <class Table, class State, class Event>
constexpr const auto& take_step(const Table& table, State& state, Event on) noexcept {
  const auto& row = table[row_of(table, state, on)];
  state = row.to;
  return row;
}

// `states`, a bit for each, and all that rows lead to from them; backward: that lead to them.
template <class Table>
constexpr std::uint64_t all_reached(const Table& table, std::uint64_t states,
                                    bool backward) noexcept {
  for (std::uint64_t before = 0; before != states;) {
    before = states;
    for (const auto& t : table) {
      const std::uint64_t from = std::uint64_t{1} << static_cast<unsigned>(t.from);
      const std::uint64_t to = std::uint64_t{1} << static_cast<unsigned>(t.to);
      if ((states & (backward ? to : from)) != 0) states |= backward ? from : to;
    }
  }
  return states;
}

// States and events are enums that count from 0, states to at most 63; the ends are the states from
// `first_end` on; the first state is 0.
template <class Table, class State>
constexpr bool table_is_sound(const Table& table, State first_end, std::size_t states,
                              std::size_t events) noexcept {
  const auto ends = static_cast<std::size_t>(first_end);
  if (states > 63) return false;
  for (const auto& t : table)
    if (static_cast<std::size_t>(t.from) >= states || static_cast<std::size_t>(t.to) >= states)
      return false;
  for (std::size_t s = 0; s < ends; ++s)
    for (std::size_t e = 0; e < events; ++e) {
      std::size_t rows = 0;
      for (const auto& t : table)
        if (static_cast<std::size_t>(t.from) == s && static_cast<std::size_t>(t.on) == e) ++rows;
      if (rows != 1) return false;
    }
  if (table.size() != ends * events) return false;  // a row that starts at an end
  const std::uint64_t all = (std::uint64_t{1} << states) - 1;
  const std::uint64_t live = (std::uint64_t{1} << ends) - 1;
  return all_reached(table, 1, false) == all && all_reached(table, all & ~live, true) == all;
}

}  // namespace lci::base
