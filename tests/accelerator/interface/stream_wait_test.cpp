// Streams that wait until a synchronizer is ready.
#include <memory>
#include <vector>

#include "lci/errors.hpp"
#include "tests/accelerator/interface/streams.hpp"

namespace accelerator_test {
namespace {

constexpr std::size_t WAITED_SIZE = 20000;

class stream_wait : public testing::Test {
 protected:
  // A receive that signals `sync`, and a copy of what came that runs in the stream.
  void receive(std::uint64_t use) {
    arrived_.memory().write(0, bytes_of(~use, WAITED_SIZE));
    copied_.memory().write(0, bytes_of(~use, WAITED_SIZE));
    post(lci::post_recv_x(world().previous(), arrived_.get(), WAITED_SIZE, use, ready_)
             .mr(lci::MR_DEVICE));
  }
  // Making and writing memory of a GPU waits for its streams: none may wait for us meanwhile.
  void prepare(std::uint64_t use) {
    out_.memory().write(0, bytes_of(seed_of(world().rank, use), WAITED_SIZE));
  }
  void send(std::uint64_t use) {
    post_and_wait(lci::post_send_x(world().next(), out_.get(), WAITED_SIZE, use, lci::COMP_NULL)
                      .mr(lci::MR_DEVICE));
  }
  busy_stream stream_;
  landing arrived_{place::device, WAITED_SIZE}, copied_{place::device, WAITED_SIZE},
      out_{place::device, WAITED_SIZE};
  const owned_comp ready_{lci::alloc_sync()};
};

TEST_F(stream_wait, holds_back_later_work_until_the_signal) {
  for (int i = 0; i < 12; ++i) {
    const std::uint64_t use = next_use();
    receive(use);
    prepare(use);
    EXPECT_TRUE(lci::stream_wait(stream_.get(), ready_).is_empty());
    stream_.copy(copied_.get(), arrived_.get(), WAITED_SIZE);
    linger();
    EXPECT_FALSE(stream_.is_idle());
    barrier();
    send(use);
    finish(stream_);
    ASSERT_TRUE(copied_.has(seed_of(world().previous(), use))) << "round " << i;
    EXPECT_FALSE(lci::sync_test(ready_, nullptr)) << "the stream has taken this round";
  }
}

// Must fire: the test above would notice.
TEST_F(stream_wait, without_it_later_work_comes_too_early) {
  const std::uint64_t use = next_use();
  receive(use);
  stream_.copy(copied_.get(), arrived_.get(), WAITED_SIZE);
  finish(stream_);
  EXPECT_FALSE(copied_.has(seed_of(world().previous(), use)));
  prepare(use);
  barrier();
  send(use);
  wait_until([&] { return lci::sync_test(ready_, nullptr); });
}

TEST_F(stream_wait, signalled_before__the_stream_goes_on) {
  lci::comp_signal(ready_, lci::status_t(lci::errorcode_t::done));
  lci::stream_wait(stream_.get(), ready_);
  finish(stream_);
}

// What a stream waits for is not to be freed, until the stream may go on.
TEST_F(stream_wait, object_is_freed_meanwhile__is_refused) {
  lci::comp_t sync = lci::alloc_sync();
  lci::stream_wait(stream_.get(), sync);
  const std::string text =
      interface_test::text_thrown<lci::argument_error>([&] { lci::free_comp(&sync); });
  EXPECT_NE(text.find("free_comp: argument comp is a synchronizer for which a stream waits"),
            std::string::npos)
      << text;
  lci::comp_signal(sync, lci::status_t(lci::errorcode_t::done));
  finish(stream_);
  lci::free_comp(&sync);
}

TEST_F(stream_wait, several_streams__each_takes_a_round_the_oldest_first) {
  const busy_stream other;
  lci::stream_wait(stream_.get(), ready_);
  lci::stream_wait(other.get(), ready_);
  lci::comp_signal(ready_, lci::status_t(lci::errorcode_t::done));
  finish(stream_);
  linger();
  EXPECT_FALSE(other.is_idle());
  lci::comp_signal(ready_, lci::status_t(lci::errorcode_t::done));
  finish(other);
}

TEST_F(stream_wait, threshold__waits_for_all_signals) {
  const owned_comp three(lci::alloc_sync_x().threshold(3)());
  lci::stream_wait(stream_.get(), three);
  for (int i = 0; i < 3; ++i) {
    linger();
    EXPECT_FALSE(stream_.is_idle());
    lci::comp_signal(three, lci::status_t(lci::errorcode_t::done));
  }
  finish(stream_);
}

TEST_F(stream_wait, forwards__what_a_stream_waits_for_a_post_sends_on) {
  // Round the ring once: each rank sends on what its stream has waited for and copied.
  const std::uint64_t use = next_use();
  const owned_comp sent(lci::alloc_counter()), received(lci::alloc_counter());
  landing back(place::device, WAITED_SIZE);
  receive(use);
  prepare(use);
  lci::stream_wait(stream_.get(), ready_);
  stream_.copy(copied_.get(), arrived_.get(), WAITED_SIZE);
  lci::stream_post(stream_.get(), lci::post_send_x(world().next(), copied_.get(), WAITED_SIZE,
                                                   use + 1'000'000, sent)
                                      .mr(lci::MR_DEVICE));
  post(lci::post_recv_x(world().previous(), back.get(), WAITED_SIZE, use + 1'000'000, received)
           .mr(lci::MR_DEVICE));
  barrier();
  send(use);
  wait_until([&] { return lci::counter_get(received) == 1 && lci::counter_get(sent) == 1; });
  const int two_before = (world().rank + 2 * world().n - 2) % world().n;
  EXPECT_TRUE(back.has(seed_of(two_before, use)));
  finish(stream_);
}

// Mappings of a peer's memory that are over cannot be closed meanwhile, which would wait for the
// stream: more of them than are kept otherwise (256 in use, 256 to be closed).
TEST_F(stream_wait, more_memory_of_a_peer_than_is_kept__comes_while_the_stream_waits) {
  constexpr std::size_t COUNT = 600, BYTES = 2048, AT_A_TIME = 20;
  std::vector<std::unique_ptr<block>> targets;
  for (std::size_t i = 0; i < COUNT; ++i)
    targets.push_back(std::make_unique<block>(place::device, BYTES));
  const std::uint64_t use = next_use();
  prepare(use);
  const owned_comp done(lci::alloc_counter());
  barrier();
  lci::stream_wait(stream_.get(), ready_);
  for (std::size_t i = 0; i < COUNT; ++i) {
    post(lci::post_recv_x(world().previous(), targets[i]->get(), BYTES, use, done)
             .mr(lci::MR_DEVICE));
    post(lci::post_send_x(world().next(), out_.get(), BYTES, use, done).mr(lci::MR_DEVICE));
    if ((i + 1) % AT_A_TIME == 0)
      wait_until([&] { return static_cast<std::size_t>(lci::counter_get(done)) == 2 * (i + 1); });
  }
  EXPECT_FALSE(stream_.is_idle());
  barrier();
  lci::comp_signal(ready_, lci::status_t(lci::errorcode_t::done));
  finish(stream_);
  const auto wanted = bytes_of(seed_of(world().previous(), use), BYTES);
  for (const auto& each : targets) ASSERT_EQ(each->read(0, BYTES), wanted);
}

TEST_F(stream_wait, wrong_arguments__are_told_at_once) {
  const auto text = [&](lci::comp_t comp) {
    return interface_test::text_thrown<lci::argument_error>(
        [&] { lci::stream_wait(stream_.get(), comp); });
  };
  EXPECT_NE(text(lci::COMP_NULL).find("empty"), std::string::npos);
  lci::comp_t freed = lci::alloc_sync();
  const lci::comp_t copy = freed;
  lci::free_comp(&freed);
  EXPECT_NE(text(copy).find("freed"), std::string::npos);
  const owned_comp counter(lci::alloc_counter());
  EXPECT_NE(text(counter).find("counter"), std::string::npos);
  EXPECT_TRUE(stream_.is_idle());
}

}  // namespace
}  // namespace accelerator_test
