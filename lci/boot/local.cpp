#include "lci/boot/local.hpp"

#include <utility>

namespace lci::boot {

void local_bootstrap::put(const std::string& key, const std::string& value) {
  check_put(name(), key, value);
  pending_[key] = value;
}

void local_bootstrap::fence() {
  // Values stay unreadable until here, so that a missing fence shows even with one rank.
  pending_.merge(visible_);  // keeps the newer of two values
  visible_ = std::exchange(pending_, {});
}

std::string local_bootstrap::get(int rank, const std::string& key) {
  check_rank(name(), rank, 1);
  const auto found = visible_.find(key);
  if (found == visible_.end()) throw_missing_key(name(), rank, key);
  return found->second;
}

}  // namespace lci::boot
