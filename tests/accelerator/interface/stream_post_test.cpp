// Posts that start when the work before them in a stream is done.
#include <algorithm>
#include <atomic>
#include <thread>

#include "lci/errors.hpp"
#include "tests/accelerator/interface/streams.hpp"

namespace accelerator_test {
namespace {

constexpr std::size_t POST_SIZES[] = {8, 20000, std::size_t{1} << 20};

struct source {
  place where;
  std::size_t size;
};
void PrintTo(const source& one, std::ostream* out) {
  *out << name_of(one.where) << " " << one.size;
}

class stream_post : public testing::TestWithParam<source> {
 protected:
  void expect_message() {
    use_ = next_use();
    from_.prepare(seed_of(world().rank, use_));
    post(lci::post_recv_x(world().previous(), to_.get(), GetParam().size, use_, done_)
             .mr(lci::MR_DEVICE));
    barrier();
  }
  lci::post_send_x send() const {
    return lci::post_send_x(world().next(), from_.get(), GetParam().size, use_, done_)
        .mr(from_.mr());
  }
  // When both have ended: whether what the stream brings has come.
  bool is_fresh() {
    wait_until([&] { return lci::counter_get(done_) == 2; });
    lci::counter_set(done_, 0);
    return to_.has(seed_of(world().previous(), use_));
  }
  void open_gate() {
    lci::comp_signal(gate_, lci::status_t(lci::errorcode_t::done));
    finish(stream_);
  }

  busy_stream stream_;
  late_source from_{GetParam().where, GetParam().size};
  landing to_{place::device, GetParam().size};
  const owned_comp done_{lci::alloc_counter()}, gate_{lci::alloc_sync()};
  std::uint64_t use_ = 0;
};

TEST_P(stream_post, send__leaves_when_the_work_before_it_is_done) {
  for (int i = 0; i < 12; ++i) {
    expect_message();
    stream_.keep_busy();
    from_.bring(stream_);
    EXPECT_TRUE(lci::stream_post(stream_.get(), send()).is_empty());
    ASSERT_TRUE(is_fresh()) << "round " << i;
    finish(stream_);
  }
}

TEST_P(stream_post, send__does_not_leave_while_the_stream_is_held_up) {
  expect_message();
  lci::stream_wait(stream_.get(), gate_);
  from_.bring(stream_);
  lci::stream_post(stream_.get(), send());
  linger();
  EXPECT_EQ(lci::counter_get(done_), 0);
  barrier();  // nobody's neighbour has let its stream go yet
  open_gate();
  EXPECT_TRUE(is_fresh());
}

// Must fire: the tests above would notice.
TEST_P(stream_post, send__without_the_stream_it_leaves_too_early) {
  expect_message();
  lci::stream_wait(stream_.get(), gate_);
  from_.bring(stream_);
  post(send());
  // The kernels have a stream of their own, but a GPU may keep it behind one that is held up.
  const lci::cuda::gpu_kernels::left_out copied;
  EXPECT_FALSE(is_fresh());
  open_gate();
}

std::vector<source> sources() {
  std::vector<source> all;
  for (const place where : {place::pinned, place::device, place::vmm}) {
    for (const std::size_t size : POST_SIZES) all.push_back({where, size});
  }
  return all;
}
INSTANTIATE_TEST_SUITE_P(from, stream_post, testing::ValuesIn(sources()), [](const auto& one) {
  return std::string(name_of(one.param.where)) + "_" + std::to_string(one.param.size);
});

TEST(stream_posts, active_message__leaves_when_the_work_before_it_is_done) {
  const interface_test::inbox inbox;
  busy_stream stream;
  for (const std::size_t size : POST_SIZES) {
    const std::uint64_t use = next_use();
    late_source from(place::device, size);
    from.prepare(seed_of(world().rank, use));
    const owned_comp sent(lci::alloc_counter());
    stream.keep_busy();
    from.bring(stream);
    lci::stream_post(
        stream.get(),
        lci::post_am_x(world().next(), from.get(), size, sent, inbox.rcomp()).mr(lci::MR_DEVICE));
    const lci::status_t status = pop(inbox.cq());
    const auto* const bytes = static_cast<const std::byte*>(status.buffer);
    EXPECT_EQ(std::vector<std::byte>(bytes, bytes + status.size),
              bytes_of(seed_of(world().previous(), use), size));
    std::free(status.buffer);
    wait_until([&] { return lci::counter_get(sent) == 1; });
  }
}

TEST(stream_posts, put_and_get__start_when_the_work_before_them_is_done) {
  busy_stream stream;
  for (const std::size_t size : POST_SIZES) {
    const std::uint64_t use = next_use();
    const target windows(place::device, {size});
    late_source from(place::device, size);
    from.prepare(seed_of(world().rank, use));
    windows.at(0).clear(seed_of(world().previous(), use));
    barrier();
    const auto [rmr, disp] = windows.at_peer(world().next(), 0, handle::whole);
    const owned_comp put(lci::alloc_counter()), got(lci::alloc_counter());
    stream.keep_busy();
    from.bring(stream);
    lci::stream_post(stream.get(), lci::post_put_x(world().next(), from.get(), size, put, disp, rmr)
                                       .mr(lci::MR_DEVICE)
                                       .comp_semantic(lci::comp_semantic_t::network));
    wait_until([&] { return lci::counter_get(put) == 1; });
    barrier();

    // What the stream still reads from the buffer is read before the get writes there.
    landing saved(place::device, size), mine(place::device, size);
    mine.memory().write(0, bytes_of(use * 1000, size));
    stream.keep_busy();
    stream.copy(saved.get(), mine.get(), size);
    lci::stream_post(
        stream.get(),
        lci::post_get_x(world().next(), mine.get(), size, got, disp, rmr).mr(lci::MR_DEVICE));
    wait_until([&] { return lci::counter_get(got) == 1; });
    EXPECT_TRUE(saved.has(use * 1000)) << size;
    EXPECT_TRUE(mine.has(seed_of(world().rank, use))) << size;
    barrier();
  }
}

TEST(stream_posts, receive__takes_the_buffer_when_the_work_before_it_is_done) {
  const std::uint64_t use = next_use();
  constexpr std::size_t SIZE = 5000;
  busy_stream stream;
  landing saved(place::device, SIZE), mine(place::device, SIZE), out(place::device, SIZE);
  mine.memory().write(0, bytes_of(use * 1000, SIZE));
  out.memory().write(0, bytes_of(seed_of(world().rank, use), SIZE));
  const owned_comp received(lci::alloc_counter()), sent(lci::alloc_counter());
  post(lci::post_send_x(world().next(), out.get(), SIZE, use, sent).mr(lci::MR_DEVICE));
  stream.keep_busy();
  stream.copy(saved.get(), mine.get(), SIZE);
  lci::stream_post(
      stream.get(),
      lci::post_recv_x(world().previous(), mine.get(), SIZE, use, received).mr(lci::MR_DEVICE));
  wait_until([&] { return lci::counter_get(received) == 1 && lci::counter_get(sent) == 1; });
  EXPECT_TRUE(saved.has(use * 1000));
  EXPECT_TRUE(mine.has(seed_of(world().previous(), use)));
}

TEST(stream_posts, several__start_in_the_order_of_the_stream) {
  constexpr std::uint64_t COUNT = 200;  // more than one page of words
  const std::uint64_t use = next_use();
  busy_stream stream;
  std::vector<std::uint64_t> out(COUNT), in(COUNT);
  const owned_comp received(lci::alloc_counter()), sent(lci::alloc_counter());
  for (std::uint64_t i = 0; i < COUNT; ++i) {
    out[i] = i + 1;
    post(lci::post_recv_x(world().previous(), &in[i], sizeof in[i], use, received));
  }
  for (std::uint64_t i = 0; i < COUNT; ++i) {
    if (i % 50 == 0) stream.keep_busy();
    lci::stream_post(stream.get(),
                     lci::post_send_x(world().next(), &out[i], sizeof out[i], use, sent));
  }
  wait_until(
      [&] { return lci::counter_get(received) == COUNT && lci::counter_get(sent) == COUNT; });
  EXPECT_EQ(in, out);
}

TEST(stream_posts, several__also_while_many_threads_make_progress) {
  constexpr std::uint64_t COUNT = 500;
  const std::uint64_t use = next_use();
  const busy_stream stream;
  std::vector<std::uint64_t> out(COUNT), in(COUNT);
  const owned_comp received(lci::alloc_counter()), sent(lci::alloc_counter());
  std::atomic<bool> is_over{false};
  std::vector<std::thread> others;
  for (int i = 0; i < 3; ++i) {
    others.emplace_back([&] {
      while (!is_over) progress();
    });
  }
  for (std::uint64_t i = 0; i < COUNT; ++i) {
    out[i] = i + 1;
    post(lci::post_recv_x(world().previous(), &in[i], sizeof in[i], use, received));
  }
  for (std::uint64_t i = 0; i < COUNT; ++i) {
    if (i % 100 == 0) stream.keep_busy();
    lci::stream_post(stream.get(),
                     lci::post_send_x(world().next(), &out[i], sizeof out[i], use, sent));
  }
  wait_until(
      [&] { return lci::counter_get(received) == COUNT && lci::counter_get(sent) == COUNT; });
  is_over = true;
  for (std::thread& each : others) each.join();
  // With several receivers at work there is no order of completion; each came once.
  std::sort(in.begin(), in.end());
  EXPECT_EQ(in, out);
}

TEST(stream_posts, drained__only_when_the_post_has_started) {
  const std::uint64_t use = next_use();
  busy_stream stream;
  const owned_comp done(lci::alloc_counter());
  std::uint64_t out = use, in = 0;
  post(lci::post_recv_x(world().rank, &in, sizeof in, use, done));
  stream.keep_busy();
  lci::stream_post(stream.get(), lci::post_send_x(world().rank, &out, sizeof out, use, done));
  EXPECT_TRUE(lci::test_drained().is_retry());
  lci::wait_drained();
  EXPECT_EQ(lci::counter_get(done), 2);
  EXPECT_EQ(in, use);
}

TEST(stream_posts, what_the_post_throws_is_thrown_by_progress) {
  busy_stream stream;
  lci::comp_t done = lci::alloc_counter();
  std::uint64_t out = 1;
  lci::stream_post(stream.get(), lci::post_send_x(world().rank, &out, sizeof out, 1, done));
  lci::free_comp(&done);
  EXPECT_NE(interface_test::text_thrown<lci::argument_error>([] {
              for (;;) progress();
            }).find("freed"),
            std::string::npos);
  EXPECT_TRUE(lci::test_drained().is_done());
}

TEST(stream_posts, wrong_arguments__are_told_at_once) {
  busy_stream stream;
  std::uint64_t out = 1;
  const owned_comp done(lci::alloc_counter());
  const auto text = [&](const lci::post_send_x& one) {
    return interface_test::text_thrown<lci::argument_error>(
        [&] { lci::stream_post(stream.get(), one); });
  };
  const lci::post_send_x good(world().rank, &out, sizeof out, 1, done);
  EXPECT_NE(text(lci::post_send_x(good).local_comp(lci::COMP_NULL)).find("local_comp"),
            std::string::npos);
  EXPECT_NE(text(lci::post_send_x(good).local_comp(lci::COMP_NULL_RETRY)).find("local_comp"),
            std::string::npos);
  EXPECT_NE(text(lci::post_send_x(good).allow_posted(false)).find("allow_posted"),
            std::string::npos);
  lci::comp_t freed = lci::alloc_counter();
  const lci::comp_t copy = freed;
  lci::free_comp(&freed);
  EXPECT_NE(text(lci::post_send_x(good).local_comp(copy)).find("freed"), std::string::npos);
  lci::stream_op_t none;
  EXPECT_THROW(lci::free_stream_op(&none), lci::argument_error);
  EXPECT_THROW(lci::free_stream_op(nullptr), lci::argument_error);
  EXPECT_TRUE(lci::test_drained().is_done());
}

}  // namespace
}  // namespace accelerator_test
