#include "lci/boot/value_store.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace lci::boot {

void value_store::set(int rank, std::string_view key, std::string_view value) {
  const auto size = static_cast<std::uint32_t>(value.size());
  const std::uint32_t name = number_of(key), old = find_entry(rank, name);
  entry one{nullptr, size, 0, name, NONE};
  if (old != NONE) one.at = entries_[old].at, one.room = entries_[old].room;
  if (size > one.room) {
    // One that grows is given room for more, so that what is left behind is never more than what is
    // there.
    one.room = std::max(size, 2 * one.room);
    one.at = take(one.room);
  }
  // Its room is of a chunk here.
  if (size != 0) std::memcpy(const_cast<char*>(one.at), value.data(), size);
  keep(rank, old, one);
}

void value_store::refer(int rank, std::string_view key, std::string_view value) {
  const std::uint32_t name = number_of(key);
  keep(rank, find_entry(rank, name),
       {value.data(), static_cast<std::uint32_t>(value.size()), 0, name, NONE});
  ++referred_;
}

void value_store::keep(int rank, std::uint32_t old, const entry& one) {
  std::uint32_t& newest = newest_[static_cast<std::size_t>(rank)];
  const std::uint32_t older = old != NONE ? entries_[old].older : newest;
  if (old == NONE) {
    entries_.push_back(one);
    old = newest = static_cast<std::uint32_t>(entries_.size() - 1);
  }
  entries_[old] = one;
  entries_[old].older = older;
}

std::optional<std::string_view> value_store::find(int rank, std::string_view key) const noexcept {
  const auto name = keys_.find(key);
  const std::uint32_t found = name == keys_.end() ? NONE : find_entry(rank, name->second);
  if (found == NONE) return std::nullopt;
  return std::string_view(entries_[found].at, entries_[found].size);
}

std::uint32_t value_store::number_of(std::string_view key) {
  if (const auto found = keys_.find(key); found != keys_.end()) return found->second;
  return keys_.emplace(key, static_cast<std::uint32_t>(keys_.size())).first->second;
}

std::uint32_t value_store::find_entry(int rank, std::uint32_t key) const noexcept {
  std::uint32_t at = newest_[static_cast<std::size_t>(rank)];
  while (at != NONE && entries_[at].key != key) at = entries_[at].older;
  return at;
}

char* value_store::take(std::size_t bytes) {
  if (bytes > left_) {
    // One that is larger than a chunk, which only those that have grown are, has one of its own.
    const std::size_t size = std::max(CHUNK, bytes);
    chunks_.push_back(std::make_unique_for_overwrite<char[]>(size));
    free_ = chunks_.back().get();
    left_ = size;
  }
  left_ -= bytes;
  return std::exchange(free_, free_ + bytes);
}

}  // namespace lci::boot
