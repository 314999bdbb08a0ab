// Many gets at once, of one rank and of two from each other.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "backends/shm/bulk_stream.hpp"
#include "tests/unit/shm/pair.hpp"

namespace lci::shm {
namespace {

constexpr std::size_t GET_SIZE = 16384;  // more than one piece: the target needs a record for each

net::fabric_config by_target() {
  net::fabric_config c;
  c.shm_single_copy = false;
  return c;
}

struct two_ranks {
  explicit two_ranks(const net::fabric_config& config) : p(config) { p.meet(); }
  // Each into a buffer of its own.
  void get(test::side& by, int from, std::vector<std::string>& all) {
    for (std::string& one : all) {
      const errorcode_t code = by.out->get(test::op_with(from, one, from == 0 ? of_a : of_b, &one));
      ASSERT_TRUE(code == errorcode_t::posted || code == errorcode_t::done);
    }
  }
  test::pair p;
  std::string a = std::string(GET_SIZE, 'a'), b = std::string(GET_SIZE, 'b');
  const net::remote_key of_a = p.a.expose(a.data(), a.size());
  const net::remote_key of_b = p.b.expose(b.data(), b.size());
};

// A request that waits in its lane would keep the answers behind it from both.
TEST(bulk_stream_gets, two_ranks_from_each_other__all_complete) {
  for (const net::fabric_config& config : {by_target(), net::fabric_config()}) {
    two_ranks r(config);
    std::vector<std::string> to_a(300, std::string(GET_SIZE, '.')), to_b = to_a;
    r.get(r.p.a, 1, to_a);
    r.get(r.p.b, 0, to_b);
    r.p.until([&] { return r.p.a.dev->is_drained() && r.p.b.dev->is_drained(); });
    for (const std::string& one : to_a) ASSERT_EQ(one, r.b);
    for (const std::string& one : to_b) ASSERT_EQ(one, r.a);
  }
}

TEST(bulk_stream_gets, of_a_peer_that_goes__its_end_is_told) {
  two_ranks r(by_target());
  std::vector<std::string> to_b(100, std::string(GET_SIZE, '.'));
  r.get(r.p.b, 0, to_b);
  for (int i = 0; i < 10; ++i) r.p.b.poll();
  r.p.b.close();
  r.p.until([&] { return !r.p.a.seen.gone.empty(); });
  EXPECT_TRUE(r.p.a.dev->is_drained());
  EXPECT_EQ(r.p.a.net->connections().chunks().outstanding(), 0u);
}

// Its answer lies in the lane that ends.
TEST(bulk_stream_gets, of_a_peer_that_has_answered__is_complete_before_its_end) {
  two_ranks r(by_target());
  std::vector<std::string> to_a(1, std::string(GET_SIZE, '.'));
  r.get(r.p.a, 1, to_a);
  r.p.a.poll();
  for (int i = 0; i < 100; ++i) r.p.b.poll();
  r.p.b.net->leave();
  r.p.b.close();
  connections& of_a = r.p.a.net->connections();
  while (!of_a.find(1)->has_ended()) of_a.look();  // so that one poll meets both
  test::pair::until([&] { return !r.p.a.seen.gone.empty(); }, {&r.p.a});
  EXPECT_EQ(to_a[0], r.b);
  EXPECT_TRUE(r.p.a.seen.errors.empty());
  ASSERT_EQ(r.p.a.seen.gone.size(), 1u);
  EXPECT_EQ(r.p.a.seen.gone[0].completed_before, 1u);
}

}  // namespace
}  // namespace lci::shm
