// What a memory refuses after its keys were withdrawn one by one.
#include "lci/transport/memory_table.hpp"

#include <gtest/gtest.h>

namespace lci::transports {
namespace {

TEST(memory_table, withdrawn__in_any_order) {
  char bytes[8] = {};
  const std::shared_ptr<memory_state> one = memory_table::add(bytes, sizeof bytes);
  key_options limited;
  limited.valid_s = 3600;
  std::vector<memory_key> keys;
  for (int i = 0; i < 5; ++i) keys.push_back(*read_key(one->give_key(limited)));
  for (const std::size_t i : {1, 2, 0, 4}) {
    one->withdraw(keys[i]);
    EXPECT_EQ(one->refusal_of(keys[i]), "it was revoked");
    EXPECT_EQ(one->refusal_of(keys[3]), "");
  }
  for (const std::size_t i : {0, 1, 2, 4}) EXPECT_EQ(one->refusal_of(keys[i]), "it was revoked");
  EXPECT_EQ(one->refusal_of(*read_key(one->give_key(limited))), "");
  memory_table::remove(*one);
}

}  // namespace
}  // namespace lci::transports
