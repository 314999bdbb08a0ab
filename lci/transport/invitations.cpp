#include "lci/transport/invitations.hpp"

#include <algorithm>
#include <utility>

#include "lci/errors.hpp"

namespace lci::transports {

void invitations::add(const boot::job_key& key, clock::time_point now,
                      std::optional<clock::duration> time, int uses) {
  expire(now);
  forget_some();
  const auto valid = std::count_if(all_.begin(), all_.end(),
                                   [](const invitation& one) { return one.over.empty(); });
  if (static_cast<std::size_t>(valid) >= MOST)
    throw backend_error("transport: " + std::to_string(MOST) + " URLs are valid already");
  invitation made;
  if (time) made.due = now + *time;
  made.uses = uses > 0 ? uses : -1;
  keys_.reserve(keys_.size() + 1);
  all_.push_back(std::move(made));
  keys_.push_back(key);  // there is room
}

std::string invitations::use(std::size_t which, clock::time_point now) {
  expire(now);
  invitation& one = all_[which];
  if (!one.over.empty()) return one.over;
  if (one.uses > 0 && --one.uses == 0) one.over = "the URL has been used as often as it may be";
  return {};
}

void invitations::clear() noexcept {
  all_.clear();
  keys_.clear();
}

void invitations::expire(clock::time_point now) {
  for (invitation& one : all_)
    if (one.over.empty() && one.due && *one.due <= now) one.over = "the time of the URL is over";
}

// The oldest of those that are over.
void invitations::forget_some() {
  auto over = std::count_if(all_.begin(), all_.end(),
                            [](const invitation& one) { return !one.over.empty(); });
  for (std::size_t i = 0; i < all_.size() && over > static_cast<std::ptrdiff_t>(MOST_OVER);) {
    if (all_[i].over.empty()) {
      ++i;
      continue;
    }
    all_.erase(all_.begin() + static_cast<std::ptrdiff_t>(i));
    keys_.erase(keys_.begin() + static_cast<std::ptrdiff_t>(i));
    --over;
  }
}

}  // namespace lci::transports
