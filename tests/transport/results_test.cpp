// The forms of a result; batches, scatter lists, cancellation, time limits.
#include "lci.hpp"

#include <limits>

#include "both_ends.hpp"
#include "lci/transport_await.hpp"

namespace transport_test {
namespace {

struct two_buffers {
  explicit two_buffers(std::size_t size)
      : here(pattern(size, 1)), there(size), local(here.data(), size), target(there.data(), size) {}
  std::vector<std::uint8_t> here, there;
  lci::memory local, target;
};

TEST(results, posted_before_connected) {
  both_ends e;
  two_buffers m(1000);
  const std::string url = e.a.bind();
  const lci::transfer of_listener = e.a.write(m.local.view(), m.target.remote(), true, 1);
  e.b.connect(url);
  const lci::transfer of_caller = e.b.read(m.local.view(), m.target.remote());
  EXPECT_FALSE(of_listener.is_done());
  ASSERT_TRUE(e.run_both(of_listener));
  ASSERT_TRUE(e.run_both(of_caller));
  of_listener.get();
  of_caller.get();
  EXPECT_EQ(e.note_of(e.b).tag, 1u);
}

TEST(results, callbacks__one_that_throws_stops_no_other) {
  lci::transport a(usual());
  a.bind();
  int called = 0;
  const lci::transfer first = a.next_write(), second = a.next_write();
  for (const lci::transfer* one : {&first, &second}) {
    one->on_done([&](std::exception_ptr) {
      ++called;
      throw std::logic_error("of a callback");
    });
  }
  EXPECT_THROW(a.close(), std::logic_error);
  EXPECT_EQ(called, 2);
}

TEST(results, callbacks__the_transport_ends_in_one) {
  for (const bool with_thread : {false, true}) {
    lci::transport_options options = usual();
    options.progress_thread = with_thread;
    auto a = std::make_unique<lci::transport>(options);
    lci::transport b(usual());
    const lci::transfer waiting = a->next_write();
    std::promise<void> has_ended;
    waiting.on_done([&](std::exception_ptr) {
      a.reset();
      has_ended.set_value();
    });
    b.connect(a->bind());
    std::uint8_t byte = 1, there = 0;
    lci::memory source(&byte, 1), target(&there, 1);
    const lci::transfer told = b.write(source.view(), target.remote(), true);
    if (with_thread) {
      ASSERT_TRUE(b.wait_connected());
      told.wait();
      has_ended.get_future().get();
    } else {
      for (int i = 0; i < 1'000'000 && a != nullptr; ++i) {
        a->process();
        b.process();
      }
      ASSERT_EQ(a, nullptr);
    }
  }
}

TEST(results, future_callback_and_comp) {
  both_ends e;
  e.connect();
  two_buffers m(100);
  std::future<void> future = e.a.write(m.local.view(), m.target.remote()).future();
  int called = 0;
  const lci::transfer second = e.a.write(m.local.view(), m.target.remote());
  second.on_done([&](std::exception_ptr problem) { called += problem == nullptr ? 1 : 100; });
  ASSERT_TRUE(e.run_both(second));
  EXPECT_EQ(called, 1);
  ASSERT_EQ(future.wait_for(std::chrono::seconds(0)), std::future_status::ready);
  future.get();
  EXPECT_EQ(m.there, m.here);
  struct counting final : lci::comp_impl_t {
    void signal(lci::status_t status) override { last = status, ++count; }
    lci::status_t last;
    int count = 0;
  } comp;
  const lci::transfer third = e.a.read(m.local.view(), m.target.remote());
  third.signal(lci::comp_t(&comp), &m);
  ASSERT_TRUE(e.run_both(third));
  EXPECT_EQ(comp.count, 1);
  EXPECT_TRUE(comp.last.is_done());
  EXPECT_EQ(comp.last.size, 100u);
  EXPECT_EQ(comp.last.user_context, &m);
}

#ifdef LCI_HAVE_AWAIT
struct detached {
  struct promise_type {
    detached get_return_object() { return {}; }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() { std::terminate(); }
  };
};

detached echo(lci::transport& at, lci::memory& local, lci::remote_buffer remote, int& step) {
  const lci::transfer next = at.next_write();
  co_await next;
  EXPECT_EQ(next.note().tag, 5u);
  step = 1;
  co_await at.write(local.view(), remote, true, 6);
  step = 2;
}

TEST(results, coroutine) {
  both_ends e;
  e.connect();
  two_buffers m(64);
  int step = 0;
  echo(e.b, m.target, m.local.remote(), step);
  EXPECT_EQ(step, 0);
  e.a.write(m.local.view(), m.target.remote(), true, 5);
  EXPECT_EQ(e.note_of(e.a).tag, 6u);
  ASSERT_TRUE(run({&e.a, &e.b}, [&] { return step == 2; }));
}
#endif

TEST(results, batch__completes_once_and_notifies_behind_all) {
  both_ends e;
  e.connect();
  const std::size_t page = 3000;
  two_buffers m(100 * page);
  const lci::remote_buffer remote = m.target.remote();
  lci::transport::batch all;
  for (std::size_t i = 100; i-- > 0;)
    all.write(m.local.view(i * page, page), remote.slice(i * page, page));
  lci::transfer_options options;
  options.notify = true;
  options.tag = 0x123456789abcdef0;
  const lci::transfer done = e.a.submit(all, options);
  EXPECT_EQ(e.note_of(e.b).tag, options.tag);
  EXPECT_EQ(m.there, m.here);
  ASSERT_TRUE(e.run_both(done));
  done.get();
}

TEST(results, scatter_list) {
  both_ends e;
  e.connect();
  two_buffers m(3000);
  lci::transport::batch all;
  all.write({m.local.view(2000, 1000), m.local.view(0, 500), m.local.view(500, 1500)},
            m.target.remote());
  const lci::transfer done = e.a.submit(all);
  ASSERT_TRUE(e.run_both(done));
  std::vector<std::uint8_t> expected(m.here.begin() + 2000, m.here.end());
  expected.insert(expected.end(), m.here.begin(), m.here.begin() + 2000);
  ASSERT_TRUE(run({&e.a, &e.b}, [&] { return m.there == expected; }));
  std::vector<std::uint8_t> back(3000);
  lci::memory into(back.data(), back.size());
  lci::transport::batch reads;
  reads.read({into.view(1000, 2000), into.view(0, 1000)}, m.target.remote());
  const lci::transfer read = e.a.submit(reads);
  ASSERT_TRUE(e.run_both(read));
  read.get();
  EXPECT_TRUE(std::equal(back.begin() + 1000, back.end(), m.there.begin()));
  EXPECT_THROW(all.write(std::vector<lci::memory_view>{m.local.view(0, 10)}, m.target.remote()),
               lci::argument_error);
}

TEST(results, every_size_around_the_limits_of_protocols) {
  both_ends e;
  e.connect();
  for (const std::size_t size :
       {1, 7, 8, 63, 64, 65, 4095, 4096, 8191, 8192, 65536, 1 << 20, 5 << 20}) {
    two_buffers m(size);
    e.a.write(m.local.view(), m.target.remote(), true, size & 0xffff);
    EXPECT_EQ(e.note_of(e.b).tag, size & 0xffff) << size;
    EXPECT_TRUE(m.there == m.here) << size;
    std::vector<std::uint8_t> back(size);
    lci::memory into(back.data(), size);
    const lci::transfer read = e.a.read(into.view(), m.target.remote());
    ASSERT_TRUE(e.run_both(read)) << size;
    EXPECT_TRUE(back == m.here) << size;
  }
}

TEST(results, cancel__before_anything_was_started) {
  both_ends e;
  two_buffers m(100);
  e.b.connect(e.a.bind());
  const lci::transfer write = e.b.write(m.local.view(), m.target.remote());
  EXPECT_TRUE(write.cancel());
  EXPECT_FALSE(write.cancel());
  EXPECT_TRUE(write.is_done());
  EXPECT_FALSE(write.is_in_use());
  EXPECT_THROW(write.get(), lci::cancelled_error);
  const lci::transfer next = e.b.next_write();
  EXPECT_TRUE(next.cancel());
  EXPECT_THROW(next.get(), lci::cancelled_error);
  ASSERT_TRUE(run({&e.a, &e.b}, [&] { return e.a.connected() && e.b.connected(); }));
  e.a.write(m.local.view(), m.target.remote(), true);
  e.note_of(e.b);  // not for the waiter that has gone
}

// The first one waits for an answer of the peer; over shared memory the second one needs none.
TEST(results, cancel__what_stood_behind_it_goes) {
  both_ends e;
  e.connect();
  if (e.a.describe().find("by shared memory") == std::string::npos) GTEST_SKIP();
  two_buffers m(8), other(8);
  ASSERT_TRUE(e.run_both(e.a.write(m.local.view(), m.target.remote())));
  const lci::transfer first = e.a.write(m.local.view(), other.target.remote());
  const lci::transfer second = e.a.write(m.local.view(), m.target.remote(), true, 5);
  EXPECT_TRUE(first.cancel());
  // Nobody calls a any more.
  lci::notification note;
  ASSERT_TRUE(run({&e.b}, [&] { return e.b.wait_for_write(0, &note); }));
  EXPECT_EQ(note.tag, 5u);
}

// Over a network it is under way for a while.
TEST(results, cancel__a_notification_alone) {
  both_ends e;
  e.connect();
  lci::transfer_options options;
  options.notify = true;
  options.tag = 1;
  e.a.submit(lci::transport::batch(), options);
  EXPECT_EQ(e.note_of(e.b).tag, 1u);
  options.tag = 2;
  const lci::transfer second = e.a.submit(lci::transport::batch(), options);
  const bool was_clean = second.cancel();
  // Two that are under way at once may come in either order.
  ASSERT_TRUE(run({&e.a, &e.b}, [&] { return !second.is_in_use(); }));
  options.tag = 3;
  e.a.submit(lci::transport::batch(), options);
  EXPECT_EQ(e.note_of(e.b).tag, was_clean ? 3u : 2u);
}

TEST(results, limit__of_what_never_begins) {
  lci::transport alone(usual());
  alone.bind();
  two_buffers m(100);
  lci::transfer_options options;
  options.limit_s = 0.01;
  const lci::transfer write = alone.write(m.local.view(), m.target.remote(), options);
  EXPECT_THROW(write.get(), lci::timeout_error);
  EXPECT_FALSE(write.is_in_use());
  EXPECT_FALSE(alone.wait_for_write(0.001, nullptr));
  EXPECT_FALSE(alone.wait_connected(0.001));
}

// Its end lies in this side's queues when its time is over: over shared memory one look finds it.
TEST(results, limit__of_what_is_over_by_then) {
  both_ends e;
  two_buffers m(1 << 20);
  e.connect();
  if (e.b.describe().find("by shared memory") == std::string::npos) GTEST_SKIP();
  ASSERT_TRUE(e.run_both(e.b.read(m.local.view(), m.target.remote())));
  for (const std::size_t size : {std::size_t{4096}, std::size_t{1} << 16}) {
    lci::transfer_options options;
    options.limit_s = 1e-9;
    const lci::transfer read =
        e.b.read(m.local.view(0, size), m.target.remote().slice(0, size), options);
    for (int i = 0; i < 1000; ++i) e.a.process();
    ASSERT_TRUE(e.run_both(read));
    EXPECT_NO_THROW(read.get()) << size;
  }
}

// This side looks only after its limit, and after the other one has closed.
TEST(results, limit__of_what_is_over_when_the_peer_leaves) {
  both_ends e;
  two_buffers m(1 << 20);
  e.connect();
  if (e.b.describe().find("by shared memory") == std::string::npos) GTEST_SKIP();
  ASSERT_TRUE(e.run_both(e.b.read(m.local.view(), m.target.remote())));
  lci::transfer_options options;
  options.limit_s = 1e-9;
  const lci::transfer read =
      e.b.read(m.local.view(0, 4096), m.target.remote().slice(0, 4096), options);
  for (int i = 0; i < 1000; ++i) e.a.process();
  e.a.close();
  ASSERT_TRUE(run({&e.b}, [&] { return read.is_done(); }));
  EXPECT_NO_THROW(read.get());
}

TEST(results, limit__beyond_all_clocks_is_none) {
  both_ends e;
  two_buffers m(100);
  e.b.connect(e.a.bind());
  std::vector<lci::transfer> all;
  for (const double limit_s : {1e9, 1e10, 1e300, std::numeric_limits<double>::infinity()}) {
    lci::transfer_options options;
    options.limit_s = limit_s;
    all.push_back(e.b.write(m.local.view(), m.target.remote(), options));
  }
  for (const lci::transfer& one : all) {
    ASSERT_TRUE(e.run_both(one));
    EXPECT_NO_THROW(one.get());
  }
}

TEST(results, limit__of_a_wait_that_is_no_number__is_refused) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  lci::transport alone(usual());
  two_buffers m(100);
  const lci::transfer write = alone.write(m.local.view(), m.target.remote());
  EXPECT_THROW(write.wait(nan), lci::argument_error);
  EXPECT_THROW(alone.wait_connected(nan), lci::argument_error);
  EXPECT_THROW(alone.wait_for_write(nan, nullptr), lci::argument_error);
  EXPECT_THROW(m.target.revoke_and_wait(nan), lci::argument_error);
  write.cancel();
  EXPECT_THROW(write.wait(nan), lci::argument_error);
  for (const double none : {-1., 1e10, std::numeric_limits<double>::infinity()}) {
    EXPECT_TRUE(write.wait(none));
    EXPECT_TRUE(m.target.revoke_and_wait(none));
  }
}

TEST(results, misuse__is_refused_at_the_call) {
  lci::transport one(usual());
  two_buffers m(100);
  const lci::remote_buffer remote = m.target.remote();
  EXPECT_THROW(one.write(m.local.view(0, 10), remote), lci::argument_error);
  EXPECT_THROW(one.write(lci::memory_view(), remote), lci::argument_error);
  EXPECT_THROW(one.submit(lci::transport::batch()), lci::argument_error);
  lci::transfer_options notify;
  notify.notify = true;
  EXPECT_THROW(one.read(m.local.view(), remote, notify), lci::argument_error);
  EXPECT_THROW(one.connect("nonsense"), lci::argument_error);
  for (double lci::transport_options::*const time :
       {&lci::transport_options::valid_s, &lci::transport_options::timeout_s,
        &lci::transport_options::spin_s})
    for (const double seconds : {-1., 1e10, std::numeric_limits<double>::quiet_NaN()}) {
      lci::transport_options options = usual();
      options.*time = seconds;
      EXPECT_THROW(lci::transport{options}, lci::argument_error) << seconds;
    }
  EXPECT_THROW(lci::transfer().is_done(), lci::argument_error);
  EXPECT_THROW(lci::transport::peer().write(m.local.view(), remote), lci::argument_error);
  lci::memory_view stale;
  {
    lci::memory gone(m.here.data(), 100);
    stale = gone.view();
  }
  EXPECT_THROW(one.write(stale, remote), lci::argument_error);
  one.close();
  EXPECT_THROW(one.write(m.local.view(), remote), lci::peer_failure_error);
  EXPECT_THROW(one.bind(), lci::argument_error);
}

}  // namespace
}  // namespace transport_test
