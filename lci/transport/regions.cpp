#include "lci/transport/regions.hpp"

#include <algorithm>

#include "lci/base/log.hpp"
#include "lci/errors.hpp"
#include "lci/memory.hpp"

namespace lci::transports {

region::region(std::shared_ptr<memory_state> of, runtime_t runtime, device_t device)
    : memory(std::move(of)),
      runtime_(runtime),
      mr_(register_memory_x(memory->data(), memory->size()).device(device)()) {}

region::~region() {
  try {
    deregister_memory_x(&mr_).runtime(runtime_)();
  } catch (const std::exception& e) {
    log::warn("transport", "a registration could not be ended: %s", e.what());
  }
}

rmr_t region::rmr() const { return get_rmr_x(mr_).runtime(runtime_)(); }

std::shared_ptr<region> regions::find(const std::shared_ptr<memory_state>& memory) {
  shared_region& one = all_[memory->id()];
  if (one.held != nullptr) return one.held;
  try {
    one.held = std::make_shared<region>(memory, runtime_, device_);
    if (on_new) on_new(*memory);
    // A thread that ends it from now on finds this transport; one that did before has not.
    if (memory->has_ended()) throw argument_error("the memory has ended");
  } catch (...) {
    all_.erase(memory->id());
    throw;
  }
  return one.held;
}

answer regions::admit(const ask& question) {
  answer reply;
  reply.number = question.number;
  std::optional<admitted> found = memory_table::admit(question.key, reply.reason);
  if (!found) return reply;
  if (!with_gpu_ && found->memory->kind() != mem::mem_kind::host) {
    reply.reason = "it is GPU memory, and use_gpu of that transport is false";
    return reply;
  }
  try {
    reply.rmr = find(found->memory)->rmr();
    // The same with a key that was revoked meanwhile.
    reply.reason = found->memory->refusal_of(found->key);
    if (!reply.reason.empty()) return reply;
  } catch (const std::exception& e) {
    reply.reason = e.what();
    return reply;
  }
  shared_region& one = all_[found->memory->id()];
  reply.is_good = true;
  reply.memory = found->memory->id();
  reply.address = found->key.address;
  reply.size = found->key.size;
  reply.rights = found->key.rights;
  time ends = time::max();
  if (found->key.ends_ms != 0) {
    const std::uint64_t now = clock_ms();
    reply.left_ms = found->key.ends_ms > now ? found->key.ends_ms - now : 1;
    has_ends_ = true;
    ends = std::chrono::steady_clock::now() + std::chrono::milliseconds(reply.left_ms);
  }
  one.ends = one.is_shown ? std::max(one.ends, ends) : ends;
  one.is_shown = true;
  return reply;
}

std::optional<withdrawn> regions::withdraw(std::uint64_t memory, time now) {
  const auto found = all_.find(memory);
  if (found == all_.end() || !found->second.is_shown) return std::nullopt;
  const withdrawn told{memory, ++last_number_};
  leaving_.push_back({told, std::move(found->second.held), now + RELEASE_TIME});
  all_.erase(found);
  return told;
}

void regions::release(std::uint64_t number) {
  std::erase_if(leaving_, [&](const auto& one) { return one.told.number == number; });
}

std::optional<withdrawn> regions::forget(std::uint64_t memory) {
  std::erase_if(leaving_, [&](const auto& one) { return one.told.memory == memory; });
  const auto found = all_.find(memory);
  if (found == all_.end()) return std::nullopt;
  const bool was_shown = found->second.is_shown;
  all_.erase(found);
  if (!was_shown) return std::nullopt;
  return withdrawn{memory, ++last_number_};
}

bool regions::is_used_by_peer(std::uint64_t memory) const {
  const auto found = all_.find(memory);
  if (found != all_.end() && found->second.is_shown) return true;
  return std::any_of(leaving_.begin(), leaving_.end(),
                     [&](const auto& one) { return one.told.memory == memory; });
}

bool regions::is_leaving(std::uint64_t number) const {
  return std::any_of(leaving_.begin(), leaving_.end(),
                     [&](const auto& one) { return one.told.number == number; });
}

std::vector<withdrawn> regions::expire(time now) {
  std::vector<withdrawn> told;
  if (!has_due()) return told;
  std::vector<std::uint64_t> ended;
  for (const auto& [memory, one] : all_)
    if (one.is_shown && one.ends <= now) ended.push_back(memory);
  for (const std::uint64_t memory : ended)
    if (const auto one = withdraw(memory, now)) told.push_back(*one);
  while (!leaving_.empty() && leaving_.front().due <= now) {
    log::info("transport", "a peer has not released memory in time; its registration ends");
    leaving_.pop_front();
  }
  return told;
}

regions::time regions::next_due() const noexcept {
  if (!has_due()) return time::max();
  time due = leaving_.empty() ? time::max() : leaving_.front().due;
  for (const auto& entry : all_)
    if (entry.second.is_shown) due = std::min(due, entry.second.ends);
  return due;
}

void regions::clear() noexcept {
  all_.clear();
  leaving_.clear();
}

}  // namespace lci::transports
