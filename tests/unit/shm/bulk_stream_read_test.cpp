// Puts that the target reads out of the sender's memory, all of them.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "backends/shm/bulk_stream.hpp"
#include "tests/unit/shm/by_way.hpp"

namespace lci::shm {

namespace {

using test::by_way;

constexpr std::size_t SHORT = 40'001;

}  // namespace

TEST(bulk_stream_read, the_target_reads_all_of_a_short_one) {
  by_way w(SHORT);
  if (!w.may_copy) GTEST_SKIP() << "the system forbids copies between processes";
  w.put(copy_way::both, bulk_stream::kind::put_imm);
  for (int i = 0; i < 10; ++i) w.p.a.poll();
  EXPECT_EQ(w.memory, std::string(SHORT, '.'));
  EXPECT_TRUE(w.p.a.seen.completed.empty());
  EXPECT_TRUE(w.p.b.seen.immediates.empty());
  w.p.b.poll();
  EXPECT_EQ(w.memory, w.text);
  EXPECT_EQ(w.p.b.seen.immediates, std::vector<std::uint32_t>{7}) << "it waits for nobody";
  w.finish();
  for (int i = 0; i < 10; ++i) w.p.b.poll();
  EXPECT_EQ(w.p.a.seen.completed.size(), 1u);
  EXPECT_EQ(w.p.b.seen.immediates, std::vector<std::uint32_t>{7}) << "once";
}

TEST(bulk_stream_read, a_short_one_that_the_target_may_not_read) {
  by_way w(SHORT);
  if (!w.may_copy) GTEST_SKIP() << "the system forbids copies between processes";
  w.p.b.net->connections().find(0)->single_copy.store(false);
  w.put(copy_way::both, bulk_stream::kind::put_imm);
  w.finish();
  w.p.until([&] { return !w.p.b.seen.immediates.empty(); });
  for (int i = 0; i < 10; ++i) w.p.b.poll();
  EXPECT_EQ(w.memory, w.text);
  EXPECT_TRUE(w.p.a.seen.errors.empty());
  EXPECT_EQ(w.p.b.seen.immediates, std::vector<std::uint32_t>{7});
}

// It has read all, told the immediate and left before the sender looks again.
TEST(bulk_stream_read, the_target_takes_it_and_goes) {
  by_way w(SHORT);
  if (!w.may_copy) GTEST_SKIP() << "the system forbids copies between processes";
  w.put(copy_way::both, bulk_stream::kind::put_imm);
  for (int i = 0; i < 10; ++i) w.p.a.poll();
  w.p.b.poll();
  ASSERT_EQ(w.p.b.seen.immediates.size(), 1u);
  w.p.a.behind().flow.drop_peer(*w.p.a.net->connections().find(1), w.p.a.seen);
  EXPECT_EQ(w.p.a.seen.completed.size(), 1u);
  EXPECT_TRUE(w.p.a.seen.errors.empty());
  EXPECT_EQ(w.memory, w.text);
}

// Its buffer may be used again, so nobody may take what was read for the message.
TEST(bulk_stream_read, a_short_one_that_its_device_has_forgotten) {
  by_way w(SHORT);
  if (!w.may_copy) GTEST_SKIP() << "the system forbids copies between processes";
  w.put(copy_way::both, bulk_stream::kind::put_imm);
  for (int i = 0; i < 10; ++i) w.p.a.poll();
  w.p.a.behind().flow.forget();
  w.p.until([&] { return w.p.a.net->connections().chunks().outstanding() == 0; });
  for (int i = 0; i < 10; ++i) w.p.b.poll();
  EXPECT_TRUE(w.p.b.seen.immediates.empty());
  EXPECT_TRUE(w.p.a.seen.completed.empty());
}

}  // namespace lci::shm
