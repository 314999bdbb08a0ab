// COMP_NULL_RETRY: the operation is finished inside of the call, or nothing of it was begun and the
// answer is retry. Never posted, whatever the kind and the size.
#include "world.hpp"

namespace interface_test {
namespace {

// Repeats it until it is done.
template <class Op>
lci::status_t finish(Op op) {
  op.local_comp(lci::COMP_NULL_RETRY).device(world().device);
  lci::status_t status;
  do {
    status = op();
    EXPECT_FALSE(status.is_posted());
    if (!status.is_done()) progress();
  } while (!status.is_done());
  return status;
}

class comp_null_retry_of : public testing::TestWithParam<size_at> {
 protected:
  const std::size_t size_ = bytes(GetParam());
  const std::uint64_t me_ = static_cast<std::uint64_t>(world().rank);
  const std::uint64_t before_ = static_cast<std::uint64_t>(world().previous());
  std::vector<char> out_ = pattern(size_, me_);
};
INSTANTIATE_TEST_SUITE_P(sizes, comp_null_retry_of, testing::ValuesIn(ALL_SIZES),
                         [](const auto& size) { return name_of(size.param); });

TEST_P(comp_null_retry_of, send__is_done_when_it_is_received_or_copied) {
  std::vector<char> in(size_);
  owned_comp cq(lci::alloc_cq());
  lci::post_recv_x(world().previous(), in.data(), size_, 41, cq)
      .device(world().device)
      .allow_done(false)();
  const lci::status_t status =
      finish(lci::post_send_x(world().next(), out_.data(), size_, 41, lci::comp_t()));
  EXPECT_EQ(status.size, size_);
  EXPECT_EQ(status.rank, world().next());
  std::fill(out_.begin(), out_.end(), 'x');  // it is the caller's again
  EXPECT_EQ(pop(cq).size, size_);
  EXPECT_EQ(difference(in.data(), size_, before_), "");
  barrier();
}

TEST_P(comp_null_retry_of, active_message__is_done_when_it_is_there_or_copied) {
  inbox box;
  finish(lci::post_am_x(world().next(), out_.data(), size_, lci::comp_t(), box.rcomp()));
  std::fill(out_.begin(), out_.end(), 'x');
  const lci::status_t got = pop(box.cq());
  EXPECT_EQ(got.size, size_);
  EXPECT_EQ(difference(got.buffer, size_, before_), "");
  lci::get_allocator()->deallocate(got.buffer);
  barrier();
}

TEST_P(comp_null_retry_of, put__is_done_when_it_is_written_or_copied) {
  window memory(size_ + 1);
  const int to = world().next();
  finish(lci::post_put_x(to, out_.data(), size_, lci::comp_t(), 0, memory.rmr(to)));
  std::fill(out_.begin(), out_.end(), 'x');
  barrier();
  EXPECT_EQ(difference(memory.bytes().data(), size_, before_), "");
}

TEST_P(comp_null_retry_of, get__is_done_when_the_bytes_are_here) {
  window memory(size_ + 1);
  const int from = world().previous();
  std::copy(out_.begin(), out_.end(), memory.bytes().begin());
  barrier();
  std::vector<char> in(size_);
  finish(lci::post_get_x(from, in.data(), size_, lci::comp_t(), 0, memory.rmr(from)));
  EXPECT_EQ(difference(in.data(), size_, before_), "");
  barrier();
}

// Nothing leaves any more: not even the question of a large message, which is then not asked.
TEST(comp_null_retry, nothing_leaves__retry_and_nothing_is_begun) {
  inbox box;
  constexpr std::uint64_t MOST = 20000;
  const int me = world().rank;
  std::uint64_t word = 7, accepted = 0;
  while (accepted < MOST &&
         lci::post_am_x(me, &word, sizeof word, lci::COMP_NULL_RETRY, box.rcomp())
             .device(world().device)()
             .is_done())
    ++accepted;
  if (accepted < MOST) {
    for (const size_at at : ALL_SIZES) {
      SCOPED_TRACE(name_of(at));
      std::vector<char> out(bytes(at));
      EXPECT_TRUE(lci::post_send_x(me, out.data(), out.size(), 43, lci::COMP_NULL_RETRY)
                      .device(world().device)()
                      .is_retry());
      EXPECT_TRUE(lci::post_am_x(me, out.data(), out.size(), lci::COMP_NULL_RETRY, box.rcomp())
                      .device(world().device)()
                      .is_retry());
    }
  }
  for (std::uint64_t i = 0; i < accepted; ++i) {
    const lci::status_t got = pop(box.cq());
    EXPECT_EQ(got.size, sizeof word);
    lci::get_allocator()->deallocate(got.buffer);
  }
  EXPECT_TRUE(stays_empty(box.cq())) << "a refused message came all the same";
  EXPECT_TRUE(lci::test_drained_x().device(world().device)().is_done());
  char byte;
  EXPECT_TRUE(
      lci::post_recv_x(me, &byte, 1, 43, lci::COMP_NULL_RETRY).device(world().device)().is_retry())
      << "a refused send came all the same";
  if (accepted == MOST) GTEST_SKIP() << "messages to oneself are never refused here";
}

// No message is there: it is as if the receive had never been posted.
TEST(comp_null_retry, receive__answers_retry_and_leaves_nothing) {
  char got[8] = {}, word[8] = "hallo";
  lci::post_recv_x recv(world().previous(), got, sizeof got, 31, lci::COMP_NULL_RETRY);
  recv.device(world().device);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(recv().is_retry());
  lci::post_recv_x any(lci::ANY_SOURCE, got, sizeof got, lci::ANY_TAG, lci::COMP_NULL_RETRY);
  any.device(world().device);
  EXPECT_TRUE(any().is_retry());
  EXPECT_TRUE(lci::test_drained_x().device(world().device)().is_done());
  barrier();
  insist(lci::post_send_x(world().next(), word, sizeof word, 31, lci::COMP_NULL)
             .device(world().device));
  lci::status_t status;
  // No progress but that of the receive itself.
  do status = recv();
  while (status.is_retry());
  EXPECT_TRUE(status.is_done());
  EXPECT_EQ(status.rank, world().previous());
  EXPECT_STREQ(got, "hallo");
}

// With a message that is sent only after it was asked for.
TEST(comp_null_retry, receive__large_message) {
  std::vector<char> out = pattern(1 << 20, 7), in(1 << 20);
  owned_comp cq(lci::alloc_cq());
  insist(lci::post_send_x(world().next(), out.data(), out.size(), 32, cq)
             .device(world().device)
             .allow_done(false));
  lci::post_recv_x recv(world().previous(), in.data(), in.size(), 32, lci::COMP_NULL_RETRY);
  recv.device(world().device);
  lci::status_t status;
  do status = recv();
  while (status.is_retry());
  EXPECT_EQ(status.size, in.size());
  EXPECT_EQ(difference(in.data(), in.size(), 7), "");
  pop(cq);
}

}  // namespace
}  // namespace interface_test
