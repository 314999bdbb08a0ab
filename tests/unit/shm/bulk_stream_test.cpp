#include "backends/shm/bulk_stream.hpp"

#include <gtest/gtest.h>

#include "backends/shm/single_copy.hpp"
#include "lci/errors.hpp"
#include "tests/unit/shm/pair.hpp"

namespace lci::shm {
namespace {

using test::pair;
using test::pattern;

enum class way { pipelined, single, both, chosen };

net::fabric_config only(way w) {
  net::fabric_config c;
  c.shm_single_copy = w != way::pipelined;
  c.shm_pipelined_copy = w != way::single;
  // With both: the kernel takes what is longer than this, so that the test sees both.
  c.shm_single_copy_min = w == way::both ? 100000 : 0;
  return c;
}

const char* name_of(way w) {
  constexpr const char* NAMES[] = {"pipelined", "single", "both", "chosen"};
  return NAMES[static_cast<int>(w)];
}

struct large : testing::TestWithParam<way> {
  large() : p(only(GetParam())) {
    p.meet();
    if (GetParam() == way::single && !p.a.net->connections().find(1)->single_copy.load())
      skip = true;
  }
  net::net_op op(void* buffer, std::size_t size, net::remote_key key, std::uint64_t offset,
                 void* context) {
    net::net_op o;
    o.rank = 1;
    o.buffer = buffer;
    o.size = size;
    o.remote = key;
    o.remote_offset = offset;
    o.context = context;
    return o;
  }
  // Waits until the operation that got this answer is over, and checks that it is told once.
  void finish(errorcode_t rc, void* context) {
    if (rc == errorcode_t::done) return;
    ASSERT_EQ(rc, errorcode_t::posted);
    p.until([&] { return !p.a.seen.completed.empty() || !p.a.seen.errors.empty(); });
    ASSERT_EQ(p.a.seen.completed.size(), 1u);
    EXPECT_EQ(p.a.seen.completed[0], context);
    EXPECT_TRUE(p.a.dev->is_drained());
    p.a.seen.completed.clear();
  }
  bool skip = false;
  pair p;
};

constexpr std::size_t SIZES[] = {
    1,     64,     bulk_stream::PIECE - 1, bulk_stream::PIECE,           bulk_stream::PIECE + 1,
    99999, 100000, bulk_stream::WINDOW,    bulk_stream::WINDOW * 3 + 17, std::size_t{5} << 20};

}  // namespace

TEST_P(large, put__complete_means_that_the_data_is_there) {
  if (skip) GTEST_SKIP() << "the system forbids copies between processes";
  for (const std::size_t size : SIZES) {
    std::string memory(size + 20, '.'), text = pattern(size, 1);
    const net::remote_key key = p.b.expose(memory.data(), memory.size());
    int context = 0;
    finish(p.post([&] { return p.a.out->put(op(text.data(), size, key, 10, &context)); }),
           &context);
    EXPECT_EQ(memory, std::string(10, '.') + text + std::string(10, '.')) << size;
  }
}

TEST_P(large, get__complete_means_that_the_data_has_come) {
  if (skip) GTEST_SKIP() << "the system forbids copies between processes";
  const std::size_t live = p.a.regions.live();
  for (const std::size_t size : SIZES) {
    std::string memory = pattern(size + 20, 2), text(size, '.');
    const net::remote_key key = p.b.expose(memory.data(), memory.size());
    int context = 0;
    finish(p.post([&] { return p.a.out->get(op(text.data(), size, key, 10, &context)); }),
           &context);
    EXPECT_EQ(text, memory.substr(10, size)) << size;
  }
  EXPECT_EQ(p.a.regions.live(), live) << "what a get registers for the time being goes again";
}

TEST_P(large, put_imm__the_immediate_follows_the_data) {
  if (skip) GTEST_SKIP() << "the system forbids copies between processes";
  std::uint32_t n = 0;
  for (const std::size_t size : SIZES) {
    std::string memory(size, '.'), text = pattern(size, 3);
    const net::remote_key key = p.b.expose(memory.data(), memory.size());
    net::net_op o = op(text.data(), size, key, 0, &n);
    o.imm = 1000 + n;
    const errorcode_t rc = p.post([&] { return p.a.out->put_imm(o); });
    ++n;
    p.until([&] { return p.b.seen.immediates.size() == n; });
    EXPECT_EQ(p.b.seen.immediates.back(), 999 + n);
    EXPECT_EQ(memory, text) << size;
    finish(rc, &n);
  }
}

TEST_P(large, fence__a_put_behind_a_small_one_lands_behind_it) {
  if (skip) GTEST_SKIP() << "the system forbids copies between processes";
  for (const std::size_t size : {std::size_t{8}, std::size_t{200000}}) {
    std::string memory(size, '.'), first(8, '1'), second(size, '2');
    const net::remote_key key = p.b.expose(memory.data(), memory.size());
    net::net_op o = op(first.data(), 8, key, 0, nullptr);
    ASSERT_EQ(p.post([&] { return p.a.out->put(o); }), errorcode_t::done);
    int context = 0;
    o = op(second.data(), size, key, 0, &context);
    o.fence = true;
    finish(p.post([&] { return p.a.out->put(o); }), &context);
    EXPECT_EQ(memory, second) << size;
  }
}

TEST_P(large, many_at_once__complete_once_each_and_in_the_order_posted) {
  if (skip) GTEST_SKIP() << "the system forbids copies between processes";
  constexpr std::size_t EACH = 70000, COUNT = 50;
  std::string memory(EACH * COUNT, '.');
  const std::string text = pattern(EACH * COUNT, 4);
  const net::remote_key key = p.b.expose(memory.data(), memory.size());
  std::vector<void*> posted;
  for (std::size_t i = 0; i < COUNT; ++i) {
    net::net_op o = op(const_cast<char*>(text.data()) + i * EACH, EACH, key, i * EACH, nullptr);
    o.context = &memory[i];
    if (p.post([&] { return p.a.out->put(o); }) == errorcode_t::posted) {
      posted.push_back(o.context);
    }
  }
  p.until([&] { return p.a.seen.completed.size() == posted.size(); });
  EXPECT_EQ(p.a.seen.completed, posted);
  EXPECT_EQ(memory, text);
}

INSTANTIATE_TEST_SUITE_P(ways, large,
                         testing::Values(way::pipelined, way::single, way::both, way::chosen),
                         [](const auto& tested) { return name_of(tested.param); });

TEST(fabric_config, both_ways_off__is_refused) {
  net::fabric_config c;
  c.shm_single_copy = c.shm_pipelined_copy = false;
  EXPECT_THROW(pair p(c), backend_error);
}

namespace {

// Rank 1 does not poll: what rank 0 has posted is under way.
struct under_way {
  explicit under_way(net::fabric_config c = only(way::pipelined)) : p(c) { p.meet(); }
  net::net_op op(void* context) { return test::op_with(1, text, key, context); }
  pair p;
  std::string memory = std::string(std::size_t{2} << 20, '.');
  std::string text = pattern(std::size_t{2} << 20, 5);
  net::remote_key key = p.b.expose(memory.data(), memory.size());
};

}  // namespace

TEST(bulk_stream, a_target_that_does_not_poll__gets_a_window_and_no_more) {
  under_way u;
  int context = 0;
  ASSERT_EQ(u.p.a.out->put(u.op(&context)), errorcode_t::posted);
  for (int i = 0; i < 1000; ++i) u.p.a.poll();
  EXPECT_FALSE(u.p.a.dev->is_drained());
  EXPECT_EQ(u.p.a.net->connections().chunks().outstanding(),
            bulk_stream::WINDOW / bulk_stream::PIECE);
  u.p.until([&] { return u.p.a.dev->is_drained(); });
  EXPECT_EQ(u.memory, u.text);
  EXPECT_EQ(u.p.a.net->connections().chunks().outstanding(), 0u);
}

TEST(bulk_stream, a_registration_that_ends_under_way__is_an_error_at_the_origin) {
  under_way u;
  int context = 0;
  ASSERT_EQ(u.p.a.out->put(u.op(&context)), errorcode_t::posted);
  ASSERT_TRUE(u.p.b.regions.erase({u.key.slot, u.key.generation}));
  u.p.until([&] { return u.p.a.dev->is_drained(); });
  ASSERT_EQ(u.p.a.seen.errors.size(), 1u);
  EXPECT_EQ(u.p.a.seen.errors[0].context, &context);
  EXPECT_EQ(u.p.a.seen.errors[0].reason, reason_of(copied::unknown));
  EXPECT_TRUE(u.p.a.seen.completed.empty());
  EXPECT_EQ(u.memory, std::string(u.memory.size(), '.'));
  EXPECT_EQ(u.p.a.net->connections().chunks().outstanding(), 0u);
}

TEST(bulk_stream, a_get_whose_source_ends_before_it_is_read__is_an_error) {
  under_way u;
  int context = 0;
  ASSERT_EQ(u.p.a.out->get(u.op(&context)), errorcode_t::posted);
  ASSERT_TRUE(u.p.b.regions.erase({u.key.slot, u.key.generation}));
  u.p.until([&] { return u.p.a.dev->is_drained(); });
  ASSERT_EQ(u.p.a.seen.errors.size(), 1u);
  EXPECT_EQ(u.p.a.seen.errors[0].context, &context);
  EXPECT_EQ(u.p.a.seen.errors[0].reason, reason_of(copied::unknown));
}

TEST(bulk_stream, more_gets_than_a_peer_answers_at_once__all_complete) {
  under_way u;
  constexpr std::size_t COUNT = 300;
  std::vector<std::string> got(COUNT, std::string(100, '.'));
  for (std::size_t i = 0; i < COUNT; ++i) {
    net::net_op o = u.op(&got[i]);
    o.buffer = got[i].data();
    o.size = 100;
    o.remote_offset = i;
    u.memory[i] = static_cast<char>(i);
    ASSERT_EQ(u.p.a.out->get(o), errorcode_t::posted);
  }
  u.p.until([&] { return u.p.a.dev->is_drained(); });
  EXPECT_EQ(u.p.a.seen.completed.size(), COUNT);
  for (std::size_t i = 0; i < COUNT; ++i) EXPECT_EQ(got[i], u.memory.substr(i, 100));
}

TEST(bulk_stream, a_peer_that_goes__fails_what_is_under_way_once_and_its_packets_come_home) {
  under_way u;
  int put = 0, get = 0, late = 0;
  ASSERT_EQ(u.p.a.out->put(u.op(&put)), errorcode_t::posted);
  ASSERT_EQ(u.p.a.out->get(u.op(&get)), errorcode_t::posted);
  ASSERT_EQ(u.p.a.out->put(u.op(&late)), errorcode_t::posted);
  u.p.b.close();
  u.p.until([&] { return !u.p.a.seen.gone.empty(); });
  EXPECT_EQ(u.p.a.seen.errors.size(), 3u);
  for (const auto& e : u.p.a.seen.errors) EXPECT_TRUE(e.after_parting) << "the death comes first";
  EXPECT_TRUE(u.p.a.seen.completed.empty());
  EXPECT_TRUE(u.p.a.dev->is_drained());
  EXPECT_EQ(u.p.a.net->connections().chunks().outstanding(), 0u);
  EXPECT_EQ(u.p.a.regions.live(), 0u);
  EXPECT_EQ(u.p.a.out->put(u.op(&put)), errorcode_t::fatal);
}

// It took everything before it went, and only the origin has not looked yet.
TEST(bulk_stream, a_peer_that_goes__does_not_fail_what_it_has_taken) {
  under_way u;
  int taken = 0;
  net::net_op op = u.op(&taken);
  op.size = bulk_stream::WINDOW;
  ASSERT_EQ(u.p.a.out->put(op), errorcode_t::posted);
  for (int i = 0; i < 1000; ++i) u.p.b.poll();
  u.p.b.close();
  u.p.until([&] { return !u.p.a.seen.gone.empty(); });
  EXPECT_TRUE(u.p.a.seen.errors.empty());
  EXPECT_EQ(u.p.a.seen.completed, std::vector<void*>{&taken});
  EXPECT_EQ(u.memory.substr(0, bulk_stream::WINDOW), u.text.substr(0, bulk_stream::WINDOW));
}

TEST(bulk_stream, posted_while_the_news_was_on_its_way__fails_as_well) {
  under_way u;
  u.p.b.close();
  u.p.until([&] { return !u.p.a.seen.gone.empty(); });
  // What a thread does that looked at the peer just before.
  int context = 0;
  mem::packet* late = u.p.a.pool.get();
  late->state.store(mem::packet_state::lent);
  ASSERT_TRUE(u.p.a.behind().flow.watch(1, late));
  ASSERT_EQ(u.p.a.behind().flow.post(bulk_stream::kind::put, u.op(&context), copy_way::pipeline,
                                     bulk_stream::chosen_by::caller),
            errorcode_t::posted);
  u.p.until([&] { return u.p.a.dev->is_drained(); });
  ASSERT_EQ(u.p.a.seen.errors.size(), 1u);
  EXPECT_EQ(u.p.a.seen.errors[0].context, &context);
  EXPECT_EQ(u.p.a.pool.outstanding(), 0u);
}

TEST(bulk_stream, single_copy_refused_later__goes_the_other_way) {
  pair p(only(way::both));
  p.meet();
  peer& b = *p.a.net->connections().find(1);
  if (!b.single_copy.load()) GTEST_SKIP() << "the system forbids copies between processes";
  std::string memory(200000, '.'), text = pattern(200000, 6);
  const net::remote_key key = p.b.expose(memory.data(), memory.size());
  net::net_op o;
  o.rank = 1;
  o.buffer = text.data();
  o.size = text.size();
  o.remote = key;
  o.context = &o;
  b.single_copy.store(false);  // as a refusal does
  ASSERT_EQ(p.a.out->put(o), errorcode_t::posted);
  p.until([&] { return p.a.seen.completed.size() == 1; });
  EXPECT_EQ(memory, text);
}

TEST(bulk_stream, neither_way_left__is_an_error_that_says_so) {
  pair p(only(way::single));
  p.meet();
  p.a.net->connections().find(1)->single_copy.store(false);
  std::string memory(2000, '.'), text(2000, 'x');
  net::net_op o;
  o.rank = 1;
  o.buffer = text.data();
  o.size = text.size();
  o.remote = p.b.expose(memory.data(), memory.size());
  o.context = &o;
  ASSERT_EQ(p.a.out->put(o), errorcode_t::posted);
  p.until([&] { return p.a.seen.errors.size() == 1; });
  EXPECT_NE(p.a.seen.errors[0].reason.find("shm_pipelined_copy"), std::string::npos);
  EXPECT_EQ(memory, std::string(2000, '.'));
}

}  // namespace lci::shm
