// What both ends of a staged transfer do alike, for the two sources of staged.hpp.
#pragma once

#include <mutex>
#include <utility>

#include "lci/proto/gpu/common.hpp"
#include "lci/proto/gpu/staged.hpp"

namespace lci::proto::gpu {

template <class Side>
Side* staged_transfers::find_locked(const data::slot_table<Side>& in, wire::name name,
                                    int rank) noexcept {
  Side* const s = in.find(name);
  return s == nullptr || s->rank != rank || has_ended(s->state) ? nullptr : s;
}

template <class Side>
staged_action staged_transfers::settle_locked(Side& s) noexcept {
  using event = typename Side::event;
  if (s.busy != 0 || s.is_lent()) return staged_action::nothing;
  return move_locked(s, s.pieces != 0 && s.done == s.pieces ? event::last : event::quiet);
}

template <class Side>
bool staged_transfers::copied_locked(Side& s, slot_copy& slot, std::string_view error) noexcept {
  slot.is_busy = false;
  slot.index += s.through.count;
  --s.busy;
  ++s.done;
  return !error.empty() && move_locked(s, Side::event::fail) == staged_action::report;
}

template <class Side>
void staged_transfers::end(wire::name name, Side& s, staged_action what) noexcept {
  if (what == staged_action::finish || what == staged_action::give_up)
    over(name, s, what == staged_action::finish);
}

template <class Side>
bool staged_transfers::fail(data::slot_table<Side>& in, wire::name name, int rank) noexcept {
  Side* s = nullptr;
  staged_action said{};
  staged_action then{};
  {
    const std::lock_guard lock(lock_);
    s = find_locked(in, name, rank);
    if (s == nullptr) return false;
    for (slot_copy& one : s->slot) one.is_lent = false;
    said = move_locked(*s, Side::PEER_OVER);
    then = settle_locked(*s);
  }
  end(name, *s, then);
  return said == staged_action::report;
}

// The one that waits longest gets slots, if there are some.
template <class Side, class Begin>
bool staged_transfers::serve(std::list<wire::name>& waiting, data::slot_table<Side>& in,
                             Begin&& begin) noexcept {
  wire::name name;
  Side* s = nullptr;
  std::list<wire::name> first;
  {
    const std::lock_guard lock(lock_);
    if (waiting.empty()) return false;
    first.splice(first.begin(), waiting, waiting.begin());
    name = first.front();
    ctx_.expect_leftovers(-1);
    s = in.find(name);
    if (s == nullptr || has_ended(s->state)) return true;
    ++s->busy;  // it is not ended meanwhile
  }
  const bool got = begin(name, *s);
  staged_action then{};
  {
    const std::lock_guard lock(lock_);
    then = let_go_locked(*s);
    if (!got && !has_ended(s->state)) {
      waiting.splice(waiting.begin(), first);
      ctx_.expect_leftovers(1);
    }
  }
  end(name, *s, then);
  return got;
}

}  // namespace lci::proto::gpu
