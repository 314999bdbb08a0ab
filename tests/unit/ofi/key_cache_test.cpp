#include "backends/ofi/key_cache.hpp"

#include "tests/unit/ofi/world.hpp"

namespace lci::ofi {
namespace {

using said = net::remote_view::answer;

class key_cache_test : public on_a_network {};

}  // namespace

// The program asks again while it is on its way.
TEST_F(key_cache_test, settle__an_answer_to_an_outdated_request_is_not_that_to_a_later_one) {
  auto g = open(2);
  meet(*g, 0, 1);
  key_cache& keys = at(0).keys();
  const note row{.what = note::kind::row, .slot = 5, .generation = 7};
  const auto find = [&] { return keys.find(1, {row.slot, row.generation}).what; };
  EXPECT_EQ(find(), said::not_connected);
  g->at(0).poll();  // asks
  keys.outdate(1);
  EXPECT_EQ(find(), said::not_connected);
  keys.settle(1, row);
  EXPECT_EQ(find(), said::not_connected);
  g->at(0).poll();
  keys.settle(1, row);
  EXPECT_EQ(find(), said::ok);
}

}  // namespace lci::ofi
