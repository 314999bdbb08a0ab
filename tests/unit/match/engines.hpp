// Runs a test against each kind of matching engine: send() and recv() with small numbers in the
// place of the callers' pointers.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>

#include "lci/match/make_engine.hpp"

namespace lci::test {

inline constexpr auto BOTH = matching_policy_t::rank_tag;
inline const auto ALL_ENGINES =
    testing::Values(attr_matching_engine_type_t::queue, attr_matching_engine_type_t::map);

class engines : public testing::TestWithParam<attr_matching_engine_type_t> {
 protected:
  void* send(int rank, tag_t tag, int value, matching_policy_t policy = BOTH) {
    return send({rank, tag, policy}, as_value(value));
  }
  // As protocols do: only what no receive waits for is filed.
  void* send(const match::match_key& key, void* value) {
    void* const receive = engine_->take_recv(key);
    return receive != nullptr ? receive : engine_->insert_send(key, value);
  }
  void* recv(int rank, tag_t tag, int value, matching_policy_t policy = BOTH) {
    return engine_->insert_recv({rank, tag, policy}, as_value(value));
  }
  // Small integers stand for the callers' pointers; 0 is null.
  static void* as_value(std::uint64_t i) { return reinterpret_cast<void*>(i); }
  void drain() {
    engine_->drain_st([](void*, matching_entry_type_t, bool) {});
  }
  std::unique_ptr<match::engine> engine_ = match::make_engine(GetParam());
};

inline std::string engine_name(const testing::TestParamInfo<attr_matching_engine_type_t>& each) {
  return each.param == attr_matching_engine_type_t::queue ? "queue" : "map";
}

}  // namespace lci::test
