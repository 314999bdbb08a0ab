// What an engine shows to who asks what is filed.
#include <gtest/gtest.h>

#include <vector>

#include "tests/unit/match/engines.hpp"

namespace lci::match {
namespace {

class engine_look : public testing::TestWithParam<attr_matching_engine_type_t> {
 protected:
  std::vector<engine::filed_entry> look() {
    std::vector<engine::filed_entry> out;
    const auto see = [](void* with, const engine::filed_entry& one) {
      static_cast<std::vector<engine::filed_entry>*>(with)->push_back(one);
    };
    EXPECT_EQ(engine_->look_at(see, &out), 0u);
    return out;
  }
  std::unique_ptr<engine> engine_ = make_engine(GetParam());
  int value_ = 0;
};

TEST_P(engine_look, look_at__tells_receives_as_they_were_asked_for) {
  EXPECT_TRUE(look().empty());
  engine_->insert_recv({3, 8, matching_policy_t::rank_tag, 64}, &value_);
  engine_->insert_recv({4, 9, matching_policy_t::tag_only, 32}, &value_);
  engine_->insert_recv({ANY_SOURCE, 7, matching_policy_t::rank_tag, 16}, &value_);
  engine_->insert_raw(5, &value_, matching_entry_type_t::recv);
  std::size_t seen = 0;
  for (const engine::filed_entry& one : look()) {
    EXPECT_EQ(one.type, matching_entry_type_t::recv);
    EXPECT_EQ(one.value, &value_);
    if (one.size == 64) {
      EXPECT_EQ(one.rank, 3);
      EXPECT_EQ(one.tag, 8u);
    } else {
      EXPECT_EQ(one.rank, ANY_SOURCE);
      EXPECT_EQ(one.tag, one.size == 32 ? 9u : 7u);
    }
    ++seen;
  }
  EXPECT_EQ(seen, 3u);
}

TEST_P(engine_look, look_at__tells_a_message_with_its_actual_sender_and_tag) {
  engine_->insert_send({2, 6, matching_policy_t::none, 100}, &value_);
  const auto all = look();
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].type, matching_entry_type_t::send);
  EXPECT_EQ(all[0].rank, 2);
  EXPECT_EQ(all[0].tag, 6u);
  EXPECT_EQ(all[0].policy, matching_policy_t::none);
  EXPECT_EQ(all[0].size, 100u);
}

TEST_P(engine_look, look_at__changes_nothing) {
  engine_->insert_send({2, 6, matching_policy_t::rank_tag, 1}, &value_);
  look();
  EXPECT_EQ(engine_->size(), 1u);
  EXPECT_EQ(engine_->insert_recv({2, 6, matching_policy_t::rank_tag, 1}, &value_), &value_);
}

INSTANTIATE_TEST_SUITE_P(all, engine_look,
                         testing::Values(attr_matching_engine_type_t::queue,
                                         attr_matching_engine_type_t::map));

}  // namespace
}  // namespace lci::match
