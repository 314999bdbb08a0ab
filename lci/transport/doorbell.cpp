#include "lci/transport/doorbell.hpp"

namespace lci::transports {

std::optional<bell> doorbell::to_tell() noexcept {
  own_.is_under_way = is_under_way();
  const bool has_turned = told_.turn != own_.turn;
  // A peer that has fallen asleep waits for this; one that has woken up does not.
  const bool is_unanswered = !peer_.is_awake && told_.heard_turn != peer_.turn;
  const bool sleeps_over_it =
      !peer_.is_awake &&
      (own_.is_under_way ? !told_.is_under_way : told_.is_under_way || told_.notes != own_.notes);
  if (!has_turned && !is_unanswered && !sleeps_over_it) return std::nullopt;
  own_.heard_turn = peer_.turn;
  told_ = own_;
  return told_;
}

bell doorbell::last() noexcept {
  own_.is_under_way = false;
  own_.heard_turn = peer_.turn;
  return told_ = own_;
}

}  // namespace lci::transports
