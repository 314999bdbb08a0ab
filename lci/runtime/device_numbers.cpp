#include "lci/runtime/device_numbers.hpp"

#include <charconv>

namespace lci::runtime {

namespace {

std::string list_of(const std::set<int>& numbers) {
  std::string out;
  for (const int one : numbers) out += std::to_string(one) + " ";
  return out;
}

std::set<int> numbers_in(const std::string& text) {
  std::set<int> out;
  const char* at = text.data();
  const char* const end = at + text.size();
  for (int one = 0; at < end; ++at) {
    at = std::from_chars(at, end, one).ptr;
    out.insert(one);
  }
  return out;
}

// The numbers that all ranks have published under that key; this rank published `mine`.
std::set<int> common(boot::bootstrap& boot, const std::string& key, std::set<int> mine) {
  for (int r = 0; r < boot.size() && !mine.empty(); ++r) {
    if (r == boot.rank()) continue;
    const std::set<int> theirs = numbers_in(boot.get(r, key));
    std::erase_if(mine, [&](int one) { return !theirs.contains(one); });
  }
  return mine;
}

// Alternates: a rank that is ahead publishes a new list while others still read the previous one.
std::string place_of(const std::string& key, unsigned meeting) {
  return key + ".free" + std::to_string(meeting % 2);
}

}  // namespace

int device_numbers::take(const net::device_config& wanted, boot::bootstrap& boot,
                         boot::meanwhile* work) {
  if (taken_ < 0) taken_ = choose(wanted, boot, work);
  return taken_;
}

std::set<int> device_numbers::free_numbers() const {
  std::set<int> out;
  for (std::size_t i = 0; i < rows_.size(); ++i)
    if (rows_[i].is_free) out.insert(static_cast<int>(i));
  return out;
}

int device_numbers::choose(const net::device_config& wanted, boot::bootstrap& boot,
                           boot::meanwhile* work) {
  std::set<int> fit = common(boot, place_of(key_, meetings_), said_);
  if (!fit.empty()) {
    // All ranks reach this line, or none. They may want different things.
    std::erase_if(fit,
                  [&](int one) { return rows_[static_cast<std::size_t>(one)].wanted != wanted; });
    const std::string key = key_ + ".fit";
    boot.put(key, list_of(fit));
    boot.fence_with(work);
    fit = common(boot, key, std::move(fit));
  }
  if (fit.empty()) {
    rows_.push_back({wanted});
    return static_cast<int>(rows_.size()) - 1;
  }
  rows_[static_cast<std::size_t>(*fit.begin())].is_free = false;
  return *fit.begin();
}

void device_numbers::meet(boot::bootstrap& boot, boot::meanwhile* work) {
  // Most programs have one device. Before the first one nothing can have been freed.
  const bool may_say = rows_.size() > 1;
  std::set<int> now;
  if (may_say) {
    now = free_numbers();
    boot.put(place_of(key_, meetings_ + 1), list_of(now));
  }
  boot.fence_with(work);
  // All ranks have met, so nothing below may fail.
  taken_ = -1;
  if (!may_say) return;
  said_.swap(now);
  ++meetings_;
}

}  // namespace lci::runtime
