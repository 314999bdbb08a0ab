#include "experimental/ibv/multi_rail/split.hpp"

#include <mutex>

namespace lci::ibv {

split* splits::take() noexcept {
  const std::lock_guard lock(lock_);
  try {
    if (free_.empty()) {
      free_.reserve(all_.size() + 1);
      free_.push_back(&all_.emplace_back());
    }
  } catch (...) {
    return nullptr;
  }
  split* const out = free_.back();
  free_.pop_back();
  return out;
}

void splits::put(split& used) noexcept {
  used = {};
  const std::lock_guard lock(lock_);
  free_.push_back(&used);  // there is room for all of them
}

}  // namespace lci::ibv
