#include "backends/ofi/key_cache.hpp"

#include "tests/unit/ofi/world.hpp"

namespace lci::ofi {
namespace {

using said = net::remote_view::answer;

class key_cache_test : public on_a_network {};

}  // namespace

// It is neither a registration nor an unknown name.
TEST_F(key_cache_test, settle__who_is_to_ask_again_does) {
  auto g = open(2);
  meet(*g, 0, 1);
  key_cache& keys = at(0).keys();
  const note row{.what = note::kind::row, .slot = 5, .generation = 7};
  note again = row;
  again.what = note::kind::ask_again;
  const auto find = [&] { return keys.find(1, {row.slot, row.generation}, 0).what; };
  EXPECT_EQ(find(), said::not_connected);
  g->at(0).poll();  // asks
  keys.settle(1, again, 0);
  EXPECT_EQ(find(), said::not_connected);
  g->at(0).poll();
  keys.settle(1, row, 0);
  EXPECT_EQ(find(), said::ok);
}

}  // namespace lci::ofi
