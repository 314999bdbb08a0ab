// Traffic of several kinds at a time: host messages beside GPU bulk, and a device that says when
// nothing is left.
#include <cstring>

#include "tests/accelerator/interface/common.hpp"
#include "tests/support/sizes.hpp"

namespace accelerator_test {
namespace {

using lci::test::MIB;

// Bulk that is under way in both directions while a test does something else.
class bulk {
 public:
  static constexpr std::size_t COUNT = 4, SIZE = 4 * MIB;
  bulk() : use_(next_use()) {
    for (std::size_t i = 0; i < COUNT; ++i) {
      from_.emplace_back(out_, i * (SIZE + 256) + 64, SIZE);
      to_.emplace_back(in_, i * (SIZE + 256) + 64, SIZE);
      from_[i].fill(seed(world().rank, i));
      to_[i].clear(seed(world().previous(), i));
      post(lci::post_recv_x(world().previous(), to_[i].get(), SIZE, use_ * 8 + i, done_)
               .mr(lci::MR_DEVICE));
    }
    barrier();
    for (std::size_t i = 0; i < COUNT; ++i)
      post(lci::post_send_x(world().next(), from_[i].get(), SIZE, use_ * 8 + i, done_)
               .mr(lci::MR_DEVICE));
  }
  bool is_done() const { return lci::counter_get(done_) == 2 * COUNT; }
  void expect_arrived() const {
    for (std::size_t i = 0; i < COUNT; ++i)
      EXPECT_EQ(to_[i].check(seed(world().previous(), i)), "");
  }

 private:
  std::uint64_t seed(int rank, std::size_t i) const { return seed_of(rank, use_ * 8 + i); }
  std::uint64_t use_;
  block out_{place::device, COUNT*(SIZE + 256)}, in_{place::device, COUNT*(SIZE + 256)};
  std::vector<slot> from_, to_;
  owned_comp done_{lci::alloc_counter()};
};

TEST(mixed, host_messages_beside_gpu_bulk) {
  const bulk beside;
  const lci::tag_t tag = next_use();
  const owned_comp received(lci::alloc_counter());
  for (std::uint64_t i = 0; i < 300; ++i) {
    std::uint64_t out = i * 1000 + static_cast<std::uint64_t>(world().rank), in = 0;
    post(lci::post_recv_x(world().previous(), &in, sizeof in, tag, received));
    post_and_wait(lci::post_send_x(world().next(), &out, sizeof out, tag, lci::COMP_NULL));
    wait_until([&] { return lci::counter_get(received) == static_cast<std::int64_t>(i) + 1; });
    ASSERT_EQ(in, i * 1000 + static_cast<std::uint64_t>(world().previous()));
  }
  std::vector<char> large(MIB, 'a'), got(MIB);
  post(lci::post_recv_x(world().previous(), got.data(), MIB, tag + 1'000'000, received));
  post_and_wait(lci::post_send_x(world().next(), large.data(), MIB, tag + 1'000'000, received));
  wait_until([&] { return lci::counter_get(received) == 301 && beside.is_done(); });
  EXPECT_EQ(got, large);
  beside.expect_arrived();
}

TEST(mixed, small_gpu_messages_beside_gpu_bulk) {
  const bulk beside;
  guarded out(place::device, 8), in(place::device, 8);
  for (int i = 0; i < 50; ++i) {
    ASSERT_EQ(send_around(out, in, 8), "") << i;
  }
  wait_until([&] { return beside.is_done(); });
  beside.expect_arrived();
}

TEST(mixed, drained__only_when_the_bulk_has_arrived) {
  const bulk beside;
  lci::wait_drained();
  EXPECT_TRUE(beside.is_done());
  EXPECT_TRUE(lci::test_drained().is_done());
  beside.expect_arrived();
}

TEST(mixed, host_of_unknown_kind__goes_as_ever) {
  const lci::tag_t tag = next_use();
  const owned_comp received(lci::alloc_counter());
  std::uint64_t out = 42, in = 0;
  post(lci::post_recv_x(world().rank, &in, sizeof in, tag, received).mr(lci::MR_UNKNOWN));
  post_and_wait(
      lci::post_send_x(world().rank, &out, sizeof out, tag, lci::COMP_NULL).mr(lci::MR_UNKNOWN));
  wait_until([&] { return lci::counter_get(received) == 1; });
  EXPECT_EQ(in, 42u);
}

}  // namespace
}  // namespace accelerator_test
