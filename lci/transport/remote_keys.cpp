#include "lci/transport/remote_keys.hpp"

#include <algorithm>
#include <utility>

#include "lci/errors.hpp"
#include "lci/transport/memory_key.hpp"
#include "lci/transport/memory_table.hpp"

namespace lci::transports {

std::string remote_key::refusal_of(std::uint64_t address, std::size_t size, bool is_write) const {
  if (state_ == state::refused) return said_.reason;
  if (ends_ != time::max() && std::chrono::steady_clock::now() >= ends_) return "its time is over";
  if ((said_.rights & (is_write ? memory_key::MAY_WRITE : memory_key::MAY_READ)) == 0)
    return is_write ? "it does not allow writing" : "it does not allow reading";
  const bool is_inside = address >= said_.address && address - said_.address <= said_.size &&
                         size <= said_.size - (address - said_.address);
  if (is_inside && address >= said_.rmr.base) return {};
  return "size " + std::to_string(size) + " at offset " +
         std::to_string(static_cast<std::int64_t>(address - said_.address)) +
         " is outside its memory of " + std::to_string(said_.size) + " bytes";
}

std::shared_ptr<remote_key> remote_keys::find(const std::string& text) {
  if (last_ != nullptr && last_->text_ == text) return last_;
  if (text.size() > MOST_TEXT)
    throw argument_error("remote_buffer: the text is not a key of a memory");
  std::shared_ptr<remote_key>& one = all_[text];
  if (one != nullptr) return last_ = one;
  one = std::make_shared<remote_key>(text);
  unknown_.push_back(one);
  std::shared_ptr<remote_key> result = one;
  if (all_.size() > most_) trim();
  return result;
}

void remote_keys::trim() {
  std::erase_if(all_, [&](const auto& entry) {
    if (entry.second.use_count() != 1) return false;
    forget_good(*entry.second);
    return true;
  });
  // Else every new key would look at all that operations hold.
  most_ = std::max(MOST_IDLE, 2 * all_.size());
}

void remote_keys::forget_good(remote_key& one) noexcept {
  const auto of_memory = good_.find(one.memory());
  if (one.state_ != remote_key::state::good || of_memory == good_.end()) return;
  of_memory->second.erase(&one);
  if (of_memory->second.empty()) good_.erase(of_memory);
}

std::vector<ask> remote_keys::questions(std::size_t most) {
  std::vector<ask> all;
  const auto end = unknown_.begin() + static_cast<std::ptrdiff_t>(std::min(most, unknown_.size()));
  for (auto at = unknown_.begin(); at != end; ++at) {
    all.push_back({next_number_, (*at)->text_});
    (*at)->state_ = remote_key::state::asked;
    asked_.emplace(next_number_++, std::move(*at));
  }
  unknown_.erase(unknown_.begin(), end);  // of a deque: nothing moves
  return all;
}

bool remote_keys::hear(const answer& reply, remote_key::time now) {
  const auto found = asked_.find(reply.number);
  if (found == asked_.end()) return false;
  const std::shared_ptr<remote_key> one = std::move(found->second);
  asked_.erase(found);
  one->said_ = reply;
  one->state_ = reply.is_good ? remote_key::state::good : remote_key::state::refused;
  one->ends_ = remote_key::time::max();
  if (reply.is_good && reply.left_ms != 0) {
    // A peer may say any number.
    constexpr auto MOST = static_cast<std::uint64_t>(MOST_SECONDS * 1000);
    one->ends_ = now + std::chrono::milliseconds(std::min(reply.left_ms, MOST));
  }
  // Asked again when it is next used: the answer may be another one then.
  if (reply.is_good) {
    good_[reply.memory].insert(one.get());
    return true;
  }
  all_.erase(one->text_);
  if (last_ == one) last_.reset();
  return true;
}

void remote_keys::withdraw(const withdrawn& told) {
  leaving gone{told.number, {}};
  if (const auto of_memory = good_.extract(told.memory); !of_memory.empty()) {
    for (const remote_key* const each : of_memory.mapped()) {
      const auto at = all_.find(each->text_);
      const std::shared_ptr<remote_key> one = at->second;
      if (last_ == one) last_.reset();
      if (one->uses != 0) gone.used.push_back(one);
      one->state_ = remote_key::state::unknown;
      // Operations that hold it and have not begun ask again.
      if (one.use_count() > 2)
        unknown_.push_back(one);
      else
        all_.erase(at);
    }
  }
  leaving_.push_back(std::move(gone));
}

std::vector<std::uint64_t> remote_keys::released() {
  std::vector<std::uint64_t> all;
  std::erase_if(leaving_, [&](const leaving& one) {
    const bool is_used = std::any_of(one.used.begin(), one.used.end(),
                                     [](const auto& key) { return key->uses != 0; });
    if (!is_used) all.push_back(one.number);
    return !is_used;
  });
  return all;
}

void remote_keys::clear() noexcept {
  last_.reset();
  good_.clear();
  all_.clear();
  asked_.clear();
  unknown_.clear();
  leaving_.clear();
}

}  // namespace lci::transports
