// The slow and obviously right matching engine that the real ones are compared with: two vectors in
// order of filing, one lock, and the sentences of engine.hpp written down one by one. Used by
// random tests.
#pragma once

#include <cstdint>
#include <mutex>
#include <utility>
#include <vector>

#include "lci/errors.hpp"
#include "lci/match/key.hpp"

namespace lci::test {

class matching_model {
 public:
  void* send(const match::match_key& key, void* value) {
    for (auto it = recvs_.begin(); it != recvs_.end(); ++it) {
      if (!it->is_raw && matches(it->pattern, key)) return take(recvs_, it);
    }
    sends_.push_back({false, 0, key, {}, value});
    return nullptr;
  }
  void* recv(const match::recv_pattern& pattern, void* value) {
    for (auto it = sends_.begin(); it != sends_.end(); ++it)
      if (!it->is_raw && matches(pattern, it->key)) {
        if (it->key.size > pattern.room) throw truncation_error("too large");
        return take(sends_, it);
      }
    recvs_.push_back({false, 0, {}, pattern, value});
    return nullptr;
  }
  void* raw(std::uint64_t key, void* value, matching_entry_type_t type) {
    const bool is_send = type == matching_entry_type_t::send;
    auto& partners = is_send ? recvs_ : sends_;
    for (auto it = partners.begin(); it != partners.end(); ++it)
      if (it->is_raw && it->raw_key == key) return take(partners, it);
    (is_send ? sends_ : recvs_).push_back({true, key, {}, {}, value});
    return nullptr;
  }
  bool remove_recv(const void* value) {
    for (auto it = recvs_.begin(); it != recvs_.end(); ++it)
      if (!it->is_raw && it->value == value) {
        recvs_.erase(it);
        return true;
      }
    return false;
  }
  std::size_t size() const { return sends_.size() + recvs_.size(); }

  static bool matches(const match::recv_pattern& r, const match::match_key& m) {
    const bool any_source = r.rank == ANY_SOURCE, any_tag = r.tag == ANY_TAG;
    if (any_source && any_tag) return true;
    if (any_source) return r.tag == m.tag;
    if (any_tag) return r.rank == m.rank;
    if (r.policy != m.policy) return false;
    switch (r.policy) {
      case matching_policy_t::none:
        return true;
      case matching_policy_t::rank_only:
        return r.rank == m.rank;
      case matching_policy_t::tag_only:
        return r.tag == m.tag;
      default:
        return r.rank == m.rank && r.tag == m.tag;
    }
  }

 private:
  struct filed {
    bool is_raw;
    std::uint64_t raw_key;
    match::match_key key;
    match::recv_pattern pattern;
    void* value;
  };
  static void* take(std::vector<filed>& from, std::vector<filed>::iterator it) {
    void* const value = it->value;
    from.erase(it);
    return value;
  }
  std::vector<filed> sends_, recvs_;
};

}  // namespace lci::test
