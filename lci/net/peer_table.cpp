#include "lci/net/peer_table.hpp"

#include <new>

#include "lci/errors.hpp"

namespace lci::net {

constexpr std::array<peer_row, 16> PEER_TABLE = {{
    {peer_state::unknown, peer_event::connect, peer_state::connecting, peer_action::note,
     "a network has begun to connect with it"},
    {peer_state::unknown, peer_event::connected, peer_state::ready, peer_action::note,
     "it has called, and was answered at once"},
    {peer_state::unknown, peer_event::leave, peer_state::left, peer_action::end,
     "the bootstrap reports it: nobody here was connected with it"},
    {peer_state::unknown, peer_event::fail, peer_state::failed, peer_action::end,
     "it cannot be reached, or the bootstrap reports that it died"},
    {peer_state::connecting, peer_event::connect, peer_state::connecting, peer_action::ignore,
     "another device, or another network, connects"},
    {peer_state::connecting, peer_event::connected, peer_state::ready, peer_action::note,
     "messages can be sent"},
    {peer_state::connecting, peer_event::leave, peer_state::left, peer_action::end,
     "it has disconnected before it was connected"},
    {peer_state::connecting, peer_event::fail, peer_state::failed, peer_action::end,
     "it died, or cannot be reached"},
    {peer_state::ready, peer_event::connect, peer_state::ready, peer_action::ignore,
     "another device, or another network, connects"},
    {peer_state::ready, peer_event::connected, peer_state::ready, peer_action::ignore,
     "another device, or another network, is connected"},
    {peer_state::ready, peer_event::leave, peer_state::left, peer_action::end,
     "it has disconnected, and one device has delivered what it sent there"},
    {peer_state::ready, peer_event::fail, peer_state::failed, peer_action::end,
     "it died, and one device has delivered what it sent there"},
    {peer_state::left, peer_event::connect, peer_state::left, peer_action::ignore,
     "another network has not noticed yet"},
    {peer_state::left, peer_event::connected, peer_state::left, peer_action::ignore,
     "another network has not noticed yet"},
    {peer_state::left, peer_event::leave, peer_state::left, peer_action::ignore,
     "another device reports the same; the first reason stays"},
    {peer_state::left, peer_event::fail, peer_state::failed, peer_action::end,
     "it had left one device or network, and died before it had left all"},
}};
static_assert(base::table_is_sound(PEER_TABLE, peer_state::failed, 5, 4));

const char* name_of(peer_state s) noexcept {
  constexpr const char* NAMES[] = {"unknown", "connecting", "ready", "left", "failed"};
  return NAMES[static_cast<std::size_t>(s)];
}

const char* name_of(peer_event e) noexcept {
  constexpr const char* NAMES[] = {"connect", "connected", "leave", "fail"};
  return NAMES[static_cast<std::size_t>(e)];
}

peer_table::peer_table(int ranks)
    : size_(ranks),
      states_(static_cast<std::size_t>(ranks)),
      reasons_(static_cast<std::size_t>(ranks)) {}

bool peer_table::report(int rank, peer_event what, std::string_view reason) noexcept {
  const std::lock_guard lock(mutex_);
  const std::size_t at = base::row_of(PEER_TABLE, state(rank), what);
  // Nothing follows a failure.
  if (at == PEER_TABLE.size() || PEER_TABLE[at].action == peer_action::ignore) return false;
  const peer_row& row = PEER_TABLE[at];
  if (row.action == peer_action::end) keep_reason_locked(rank, reason);
  if (row.to == peer_state::failed) last_failure_ = std::chrono::steady_clock::now();
  state_of(rank).store(row.to, std::memory_order_relaxed);
  // edge peers.epoch: the state is visible to all that see the new epoch; partner is epoch().
  if (row.action == peer_action::end) epoch_.fetch_add(1, std::memory_order_release);
  tell_locked(rank);
  return true;
}

void peer_table::part(int rank, std::string_view reason) noexcept {
  const std::lock_guard lock(mutex_);
  if (!has_ended(rank)) {
    keep_reason_locked(rank, reason);
    // edge peers.epoch: what the device knows of it is visible to all that see the new epoch.
    epoch_.fetch_add(1, std::memory_order_release);
  }
  remind_locked(rank);
}

void peer_table::remind(int rank) noexcept {
  const std::lock_guard lock(mutex_);
  remind_locked(rank);
}

void peer_table::subscribe(subscriber& one) {
  const std::lock_guard lock(mutex_);
  subscribers_.push_back(&one);
}

void peer_table::unsubscribe(subscriber& one) noexcept {
  const std::lock_guard lock(mutex_);
  std::erase(subscribers_, &one);
}

void peer_table::keep_reason_locked(int rank, std::string_view reason) noexcept {
  std::string& kept = reasons_[static_cast<std::size_t>(rank)];
  try {
    kept = reason;
  } catch (const std::bad_alloc&) {
    kept.clear();  // that it has ended counts
  }
}

void peer_table::tell_locked(int rank) noexcept {
  for (subscriber* const one : subscribers_) one->on_peer(rank, state(rank));
}

void peer_table::remind_locked(int rank) noexcept {
  if (has_ended(rank)) return tell_locked(rank);
  for (subscriber* const one : subscribers_) one->on_part(rank);
}

std::string peer_table::reason(int rank) const {
  const std::lock_guard lock(mutex_);
  const std::string& kept = reasons_[static_cast<std::size_t>(rank)];
  // The network refuses a post before a poll has reported why.
  return kept.empty() ? "its connection has failed" : kept;
}

void peer_table::throw_ended(int rank) const {
  std::optional<peer_failure_error> error;
  try {
    error.emplace(rank, "rank " + std::to_string(rank) + " is lost: " + reason(rank));
  } catch (const std::bad_alloc&) {
    error.emplace(rank, std::string());  // it may be told once only: which rank, if not why
  }
  throw *error;
}

std::vector<int> peer_table::failed() const {
  std::vector<int> out;
  for (int rank = 0; rank < size_; ++rank)
    if (has_failed(rank)) out.push_back(rank);
  return out;
}

bool peer_table::has_failed_lately(std::chrono::steady_clock::duration lately) const noexcept {
  if (epoch() == 0) return false;
  const std::lock_guard lock(mutex_);
  return last_failure_ && std::chrono::steady_clock::now() - *last_failure_ < lately;
}

}  // namespace lci::net
