#include "lci/proxy/keys.hpp"

#include "lci/runtime/runtime.hpp"

namespace lci::proxy {

void keys::enter_locked(const named_memory& what) {
  const std::size_t row = what.key >> 8;
  if (row >= rows_.size()) rows_.resize(row + 1);
  rows_[row] = what;
}

std::uint32_t keys::of(mr_impl_t& region, const rmr_t& rmr, int me) {
  const std::lock_guard lock(mutex_);
  if (const auto found = of_region_.find(&region); found != of_region_.end()) return found->second;
  named_memory made;
  made.key = own_.add(
      {static_cast<std::byte*>(region.address), region.size,
       device::WRITE | device::REMOTE_READ | device::REMOTE_WRITE | device::REMOTE_ATOMIC, false});
  made.mr = mr_t(&region);
  made.is_host = region.place.kind == mem::mem_kind::host;
  made.rmr = rmr;
  made.rank = me;
  made.base = reinterpret_cast<std::uintptr_t>(region.address);
  try {
    enter_locked(made);
    of_region_.emplace(&region, made.key);
  } catch (...) {
    own_.remove(made.key);
    throw;
  }
  return made.key;
}

void keys::forget(mr_impl_t& region) noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = of_region_.find(&region);
  if (found == of_region_.end()) return;
  own_.remove(found->second);
  rows_[found->second >> 8] = {};
  of_region_.erase(found);
}

std::uint32_t keys::of(const rmr_t& rmr, int rank, const void* owner) {
  const peer_name name(rmr.base, rmr.mr_base, rmr.opaque_rkey, rank, owner);
  const std::lock_guard lock(mutex_);
  if (const auto found = of_peer_.find(name); found != of_peer_.end()) return found->second;
  named_memory made;
  made.key = own_.add({});
  made.rmr = rmr;
  made.rank = rank;
  made.base = rmr.base;
  try {
    enter_locked(made);
    of_peer_.emplace(name, made.key);
  } catch (...) {
    own_.remove(made.key);
    throw;
  }
  return made.key;
}

void keys::forget_all(const void* owner) noexcept {
  const std::lock_guard lock(mutex_);
  for (auto it = of_peer_.begin(); it != of_peer_.end();) {
    if (std::get<4>(it->first) != owner) {
      ++it;
      continue;
    }
    own_.remove(it->second);
    rows_[it->second >> 8] = {};
    it = of_peer_.erase(it);
  }
}

std::optional<named_memory> keys::find(std::uint32_t key) const {
  const std::lock_guard lock(mutex_);
  const std::size_t row = key >> 8;
  if (key == 0 || row >= rows_.size() || rows_[row].key != key) return std::nullopt;
  return rows_[row];
}

}  // namespace lci::proxy
