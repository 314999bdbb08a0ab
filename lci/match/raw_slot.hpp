// Room in a bucket for one entry under a raw key, without a record: most are taken before another
// comes. Callers: map_engine. Single: guarded by the bucket's owner.
#pragma once

#include <cstdint>

#include "lci/types.hpp"

namespace lci::match {

class raw_slot {
 public:
  bool is_empty() const noexcept { return value_ == nullptr; }
  bool holds_partner(matching_entry_key_t key, matching_entry_type_t mine) const noexcept {
    return value_ != nullptr && key_ == key && type_ != mine;
  }
  // Into an empty one.
  void put(matching_entry_key_t key, void* value, matching_entry_type_t type) noexcept {
    key_ = key;
    value_ = value;
    type_ = type;
  }
  void* take() noexcept {
    void* const value = value_;
    value_ = nullptr;
    return value;
  }
  matching_entry_key_t key() const noexcept { return key_; }
  matching_entry_type_t type() const noexcept { return type_; }

 private:
  matching_entry_key_t key_ = 0;
  void* value_ = nullptr;  // null: empty
  matching_entry_type_t type_ = matching_entry_type_t::send;
};

}  // namespace lci::match
