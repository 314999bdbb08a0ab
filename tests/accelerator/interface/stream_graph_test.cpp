// Posts and waits that are captured: one message, and one completion waited for, per replay.
#include "lci/errors.hpp"
#include "tests/accelerator/interface/streams.hpp"

namespace accelerator_test {
namespace {

constexpr std::size_t REPLAYS = 100;

// A number in GPU memory that each replay of a graph makes larger by one, with copies alone.
class replay_number {
 public:
  replay_number() {
    std::vector<std::byte> bytes;
    for (std::uint64_t i = 0; i <= REPLAYS; ++i) {
      const auto* const at = reinterpret_cast<const std::byte*>(&i);
      bytes.insert(bytes.end(), at, at + sizeof i);
    }
    numbers_.write(0, bytes);
  }
  void capture_next(const user_stream& stream) const {
    stream.copy(spare_.get(), numbers_.get() + 8, 8 * REPLAYS);
    stream.copy(numbers_.get(), spare_.get(), 8 * REPLAYS);
  }
  const void* get() const { return numbers_.get(); }

 private:
  block numbers_{place::device, 8 * (REPLAYS + 1)}, spare_{place::device, 8 * (REPLAYS + 1)};
};

class stream_graph : public testing::TestWithParam<std::size_t> {
 protected:
  // Messages of this size carry the number of the replay in front.
  std::uint64_t number_in(const void* at) const {
    std::uint64_t number = 0;
    std::memcpy(&number, at, sizeof number);
    return number;
  }
  void capture() {
    // Before, so that nothing is made while a capture is going on that it forbids.
    stream_.begin_capture();
    number_.capture_next(stream_);
    stream_.keep_busy();
    stream_.copy(out_.get(), number_.get(), 8);
    post_ = lci::stream_post(
        stream_.get(), lci::post_am_x(world().next(), out_.get(), GetParam(), sent_, inbox_.rcomp())
                           .mr(lci::MR_DEVICE));
    if (waits_) wait_ = lci::stream_wait(stream_.get(), sent_);
    graph_ = stream_.end_capture();
    EXPECT_FALSE(post_.is_empty());
    EXPECT_EQ(wait_.is_empty(), !waits_);
  }
  void end() {
    finish(stream_);
    stream_.destroy(graph_);
    lci::free_stream_op(&post_);
    EXPECT_TRUE(post_.is_empty());
    if (waits_) lci::free_stream_op(&wait_);
  }

  bool waits_ = true;
  const interface_test::inbox inbox_;
  busy_stream stream_;
  replay_number number_;
  block out_{place::device, GetParam()};
  const owned_comp sent_{lci::alloc_sync()};
  lci::stream_op_t post_, wait_;
  void* graph_ = nullptr;
};

TEST_P(stream_graph, replay__is_one_message_with_what_that_replay_wrote) {
  capture();
  for (std::size_t i = 0; i < REPLAYS; ++i) stream_.launch(graph_);
  for (std::uint64_t i = 1; i <= REPLAYS; ++i) {
    const lci::status_t status = pop(inbox_.cq());
    ASSERT_EQ(number_in(status.buffer), i);
    ASSERT_EQ(status.size, GetParam());
    std::free(status.buffer);
  }
  end();
  EXPECT_TRUE(stays_empty(inbox_.cq()));
}

TEST_P(stream_graph, replay__one_at_a_time) {
  capture();
  for (std::uint64_t i = 1; i <= 10; ++i) {
    stream_.launch(graph_);
    const lci::status_t status = pop(inbox_.cq());
    ASSERT_EQ(number_in(status.buffer), i);
    std::free(status.buffer);
    finish(stream_);
  }
  end();
}

INSTANTIATE_TEST_SUITE_P(size, stream_graph, testing::Values(8, 20000, 1 << 20));

TEST(stream_graphs, without_a_wait__no_trigger_is_lost) {
  const interface_test::inbox inbox;
  const user_stream stream;
  const owned_comp sent(lci::alloc_counter());
  stream.begin_capture();
  lci::stream_op_t post = lci::stream_post(
      stream.get(), lci::post_am_x(world().next(), nullptr, 0, sent, inbox.rcomp()));
  void* const graph = stream.end_capture();
  for (std::size_t i = 0; i < REPLAYS; ++i) stream.launch(graph);  // nobody looks meanwhile
  for (std::size_t i = 0; i < REPLAYS; ++i) pop(inbox.cq());
  finish(stream);
  wait_until([&] { return lci::counter_get(sent) == REPLAYS; });
  EXPECT_TRUE(stays_empty(inbox.cq()));
  stream.destroy(graph);
  lci::free_stream_op(&post);
}

TEST(stream_graphs, two_posts__keep_their_order_over_all_replays) {
  const interface_test::inbox inbox;
  const user_stream stream;
  const owned_comp sent(lci::alloc_counter());
  std::uint64_t first = 1, second = 2;
  stream.begin_capture();
  const auto add = [&](std::uint64_t& what) {
    return lci::stream_post(
        stream.get(), lci::post_am_x(world().next(), &what, sizeof what, sent, inbox.rcomp()));
  };
  lci::stream_op_t a = add(first), b = add(second);
  void* const graph = stream.end_capture();
  for (std::size_t i = 0; i < REPLAYS; ++i) stream.launch(graph);
  for (std::size_t i = 0; i < 2 * REPLAYS; ++i) {
    const lci::status_t status = pop(inbox.cq());
    ASSERT_EQ(*static_cast<std::uint64_t*>(status.buffer), i % 2 + 1) << i;
    std::free(status.buffer);
  }
  finish(stream);
  wait_until([&] { return lci::counter_get(sent) == 2 * REPLAYS; });
  stream.destroy(graph);
  lci::free_stream_op(&a);
  lci::free_stream_op(&b);
}

TEST(stream_graphs, freed_handle__is_noticed) {
  const user_stream stream;
  const owned_comp sent(lci::alloc_counter());
  stream.begin_capture();
  lci::stream_op_t post =
      lci::stream_post(stream.get(), lci::post_send_x(world().rank, nullptr, 0, 1, sent));
  void* const graph = stream.end_capture();
  stream.destroy(graph);
  lci::stream_op_t copy = post;
  EXPECT_TRUE(copy == post);
  lci::free_stream_op(&post);
  EXPECT_TRUE(copy != post);
  EXPECT_THROW(lci::free_stream_op(&copy), lci::argument_error);
  EXPECT_TRUE(lci::test_drained().is_done());
}

TEST(stream_graphs, freed_by_the_handler_of_its_own_message) {
  const user_stream stream;
  static lci::stream_op_t post;
  static int calls = 0;
  calls = 0;
  const owned_comp handler(lci::alloc_handler([](lci::status_t) {
    ++calls;
    lci::free_stream_op(&post);
  }));
  const interface_test::inbox inbox;
  stream.begin_capture();
  post = lci::stream_post(stream.get(),
                          lci::post_am_x(world().next(), nullptr, 0, handler, inbox.rcomp()));
  void* const graph = stream.end_capture();
  stream.launch(graph);
  pop(inbox.cq());
  finish(stream);
  wait_until([] { return calls == 1; });
  stream.destroy(graph);
}

}  // namespace
}  // namespace accelerator_test
