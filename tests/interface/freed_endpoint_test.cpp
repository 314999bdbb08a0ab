// What was posted with an endpoint that is freed before it completes. Ranks talk to themselves, so
// that nothing moves unless they make progress.
#include "world.hpp"

namespace interface_test {
namespace {

class freed_endpoint : public testing::Test {
 protected:
  lci::endpoint_t extra_ = lci::alloc_endpoint_x().device(world().device)();
};

// Whatever is in the memory of the endpoint by the time the data can go.
TEST_F(freed_endpoint, large_message_under_way__arrives) {
  constexpr std::size_t SIZE = std::size_t{1} << 20;
  std::vector<char> out = pattern(SIZE, 1), in(SIZE);
  owned_comp sent(lci::alloc_cq()), received(lci::alloc_cq());
  insist(lci::post_send_x(world().rank, out.data(), SIZE, 91, sent)
             .device(world().device)
             .endpoint(extra_)
             .allow_done(false));
  lci::free_endpoint(&extra_);
  std::vector<std::vector<char>> others;
  for (std::size_t size = 16; size <= 1024; size += 16)
    others.insert(others.end(), 10, std::vector<char>(size, '\x55'));
  lci::post_recv_x(world().rank, in.data(), SIZE, 91, received)
      .device(world().device)
      .allow_done(false)();
  pop(received);
  pop(sent);
  EXPECT_EQ(difference(in.data(), SIZE, 1), "");
}

// As many as one likes, one after the other, whatever each leaves under way.
TEST_F(freed_endpoint, next_one__begins_where_it_ended) {
  lci::free_endpoint(&extra_);
  for (int round = 0; round < 100; ++round) {
    lci::endpoint_t one = lci::alloc_endpoint_x().device(world().device)();
    int in = -1, out = round;
    insist(lci::post_send_x(world().rank, &out, sizeof out, 92, lci::COMP_NULL)
               .device(world().device)
               .endpoint(one));
    lci::free_endpoint(&one);
    lci::post_recv_x(world().rank, &in, sizeof in, 92, lci::COMP_NULL).device(world().device)();
    EXPECT_EQ(in, round);
  }
}

}  // namespace
}  // namespace interface_test
