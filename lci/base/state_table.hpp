// Protocols of several steps as data: {state, event, next state, action}. The table is the
// specification; code only walks it. Threads: immutable; who may run step() at once is the owner of
// the state's business. Always true, checked at compile time by table_is_sound(): every pair of a
// live state and an event has exactly one row (ignoring an event is a row too), every state can be
// reached, and every live state can reach an end.
#pragma once

#include <array>
#include <cstddef>

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

// States and events are enums that count from 0; the ends are the states from `first_end` on; the
// first state is 0.
template <class Table, class State>
constexpr bool table_is_sound(const Table& table, State first_end, std::size_t states,
                              std::size_t events) noexcept {
  const auto ends = static_cast<std::size_t>(first_end);
  for (std::size_t s = 0; s < ends; ++s)
    for (std::size_t e = 0; e < events; ++e) {
      std::size_t rows = 0;
      for (const auto& t : table)
        if (static_cast<std::size_t>(t.from) == s && static_cast<std::size_t>(t.on) == e) ++rows;
      if (rows != 1) return false;
    }
  if (table.size() != ends * events) return false;  // a row that starts at an end
  for (std::size_t s = 1; s < states; ++s) {
    bool reached = false;
    for (const auto& t : table)
      reached = reached || (static_cast<std::size_t>(t.to) == s && t.from != t.to);
    if (!reached) return false;
  }
  for (std::size_t s = 0; s < ends; ++s) {
    bool leaves = false;
    for (const auto& t : table)
      leaves = leaves || (static_cast<std::size_t>(t.from) == s && t.from != t.to);
    if (!leaves) return false;
  }
  return true;
}

}  // namespace lci::base
