// Completion objects as operations use them: what each kind keeps of a signal, several testers and
// signallers, objects of the program's own, the wrong kind of object.
#include <algorithm>
#include <atomic>
#include <thread>

#include "world.hpp"

namespace interface_test {
namespace {

lci::status_t numbered(std::uintptr_t number) {
  return lci::status_t(reinterpret_cast<void*>(number));
}

// Sends `count` messages of one byte to oneself, each with its own context, and all signalling
// `comp`.
void signal_by_messages(lci::comp_t comp, std::uintptr_t count) {
  static char byte;
  for (std::uintptr_t i = 0; i < count; ++i) {
    lci::post_recv_x(world().rank, &byte, 1, 1, comp)
        .device(world().device)
        .allow_done(false)
        .user_context(reinterpret_cast<void*>(i + 1))();
    lci::post_send_x(world().rank, &byte, 1, 1, lci::COMP_NULL).device(world().device)();
  }
}

TEST(sync, threshold__all_statuses_come_out_together) {
  constexpr std::size_t THRESHOLD = 3;
  owned_comp sync(lci::alloc_sync_x().threshold(THRESHOLD)());
  EXPECT_EQ(lci::comp_t(sync).get_attr_sync_threshold(), static_cast<int>(THRESHOLD));
  for (int round = 0; round < 3; ++round) {
    signal_by_messages(sync, THRESHOLD);
    lci::status_t out[THRESHOLD];
    lci::sync_wait_x(sync, out).device(world().device)();
    std::uintptr_t sum = 0;
    for (const lci::status_t& status : out) {
      EXPECT_TRUE(status.is_done());
      EXPECT_EQ(status.rank, world().rank);
      sum += reinterpret_cast<std::uintptr_t>(status.user_context);
    }
    EXPECT_EQ(sum, 6u);
    EXPECT_FALSE(lci::sync_test(sync, nullptr)) << "the round starts over";
  }
}

TEST(sync, test__leaves_the_status_alone_until_it_is_ready) {
  owned_comp sync(lci::alloc_sync_x().threshold(2)());
  lci::status_t out[2];
  EXPECT_FALSE(lci::sync_test(sync, out));
  lci::comp_signal(sync, numbered(1));
  EXPECT_FALSE(lci::sync_test(sync, out));
  EXPECT_FALSE(out[0].is_done()) << "clients look at the status alone";
  lci::comp_signal(sync, numbered(2));
  EXPECT_TRUE(lci::sync_test(sync, out));
  EXPECT_TRUE(out[0].is_done());
  EXPECT_TRUE(out[1].is_done());
}

TEST(sync, wait__without_progress_sees_what_another_thread_does) {
  owned_comp sync(lci::alloc_sync_x().threshold(1)());
  std::thread other([&] { lci::comp_signal(sync, numbered(5)); });
  lci::status_t out;
  lci::sync_wait_x(sync, &out).do_progress(false)();
  other.join();
  EXPECT_EQ(out.user_context, numbered(5).user_context);
}

TEST(sync, test__exactly_one_of_many_testers_gets_true) {
  owned_comp sync(lci::alloc_sync_x().threshold(1)());
  constexpr int ROUNDS = 200;
  std::atomic<int> taken{0};
  std::atomic<bool> stop{false};
  std::vector<std::thread> testers;
  for (int t = 0; t < world().threads; ++t)
    testers.emplace_back([&] {
      while (!stop) {
        lci::status_t out;
        if (lci::sync_test(sync, &out)) {
          EXPECT_TRUE(out.is_done());
          ++taken;
        } else {
          std::this_thread::yield();
        }
      }
    });
  for (int round = 0; round < ROUNDS; ++round) {
    lci::comp_signal(sync, numbered(1));
    while (taken <= round) std::this_thread::yield();
  }
  stop = true;
  for (std::thread& tester : testers) tester.join();
  EXPECT_EQ(taken, ROUNDS);
}

TEST(sync, too_many_signals__are_an_error_and_change_nothing) {
  owned_comp sync(lci::alloc_sync_x().threshold(1)());
  lci::comp_signal(sync, numbered(1));
  EXPECT_THROW(lci::comp_signal(sync, numbered(2)), std::runtime_error);
  lci::status_t out;
  EXPECT_TRUE(lci::sync_test(sync, &out));
  EXPECT_EQ(out.user_context, numbered(1).user_context);
  EXPECT_FALSE(lci::sync_test(sync, &out));
}

TEST(counter, signals__add_one_each_also_from_many_threads) {
  owned_comp counter(lci::alloc_counter());
  EXPECT_EQ(lci::counter_get(counter), 0);
  lci::counter_set(counter, 40);
  signal_by_messages(counter, 2);
  wait_until([&] { return lci::counter_get(counter) == 42; });
  std::vector<std::thread> threads;
  for (int t = 0; t < world().threads; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 1000; ++i) lci::comp_signal(counter, numbered(1));
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(lci::counter_get(counter), 42 + 1000 * world().threads);
}

class queues : public testing::TestWithParam<lci::attr_cq_type_t> {};

TEST_P(queues, pop__every_status_once_with_many_on_both_sides) {
  owned_comp cq(lci::alloc_cq_x().cq_type(GetParam()).default_length(1 << 16)());
  EXPECT_EQ(lci::comp_t(cq).get_attr_cq_type(), GetParam());
  EXPECT_EQ(lci::comp_t(cq).get_attr_cq_default_length(), 1 << 16);
  EXPECT_TRUE(lci::cq_pop(cq).is_retry());
  constexpr std::uintptr_t EACH = 5000;
  const auto threads = static_cast<std::uintptr_t>(world().threads);
  std::vector<std::atomic<int>> seen(EACH * threads);
  std::atomic<std::uintptr_t> popped{0};
  std::vector<std::thread> workers;
  for (std::uintptr_t t = 0; t < threads; ++t) {
    workers.emplace_back([&, t] {
      for (std::uintptr_t i = 0; i < EACH; ++i) lci::comp_signal(cq, numbered(t * EACH + i));
    });
    workers.emplace_back([&] {
      while (popped < EACH * threads) {
        const lci::status_t status = lci::cq_pop(cq);
        if (status.is_done()) {
          ++seen[reinterpret_cast<std::uintptr_t>(status.user_context)];
          ++popped;
        } else {
          std::this_thread::yield();
        }
      }
    });
  }
  for (std::thread& worker : workers) worker.join();
  for (const auto& count : seen) ASSERT_EQ(count, 1);
  EXPECT_TRUE(lci::cq_pop(cq).is_retry());
}

// Longer than it was made for: nothing is lost.
TEST_P(queues, signal__beyond_the_default_length_loses_nothing) {
  owned_comp cq(lci::alloc_cq_x().cq_type(GetParam()).default_length(16)());
  for (std::uintptr_t i = 0; i < 1000; ++i) lci::comp_signal(cq, numbered(i + 1));
  for (std::uintptr_t i = 0; i < 1000; ++i) {
    const lci::status_t status = lci::cq_pop(cq);
    ASSERT_TRUE(status.is_done()) << "status " << i;
    EXPECT_EQ(status.user_context, numbered(i + 1).user_context);
  }
}

// Threads send to themselves, all signalling one queue, and take from it.
TEST_P(queues, messages_of_many_threads__each_signals_once) {
  owned_comp cq(lci::alloc_cq_x().cq_type(GetParam())());
  constexpr std::uintptr_t EACH = 200;
  const auto threads = static_cast<std::uintptr_t>(world().threads);
  const std::uintptr_t all = 2 * EACH * threads;
  std::vector<std::atomic<int>> seen(EACH * threads);
  std::atomic<std::uintptr_t> popped{0};
  std::vector<std::thread> workers;
  for (std::uintptr_t t = 0; t < threads; ++t)
    workers.emplace_back([&, t] {
      std::vector<char> in(EACH);
      char out = 0;
      for (std::uintptr_t i = 0; popped < all;) {
        if (i < EACH) {
          // A send and a receive with the number of both.
          void* const number = numbered(t * EACH + i).user_context;
          insist(lci::post_recv_x(world().rank, &in[i], 1, 100 + t, cq)
                     .device(world().device)
                     .allow_done(false)
                     .user_context(number));
          insist(lci::post_send_x(world().rank, &out, 1, 100 + t, cq)
                     .device(world().device)
                     .allow_done(false)
                     .user_context(number));
          ++i;
        }
        progress();
        for (lci::status_t got; (got = lci::cq_pop(cq)).is_done(); ++popped)
          ++seen[reinterpret_cast<std::uintptr_t>(got.user_context)];
      }
    });
  for (std::thread& worker : workers) worker.join();
  for (const auto& count : seen) ASSERT_EQ(count, 2);
  EXPECT_TRUE(lci::cq_pop(cq).is_retry());
}

INSTANTIATE_TEST_SUITE_P(types, queues,
                         testing::Values(lci::attr_cq_type_t::lcrq,
                                         lci::attr_cq_type_t::array_atomic,
                                         lci::attr_cq_type_t::per_thread),
                         [](const auto& param) {
                           return param.param == lci::attr_cq_type_t::lcrq         ? "lcrq"
                                  : param.param == lci::attr_cq_type_t::per_thread ? "per_thread"
                                                                                   : "array_atomic";
                         });

TEST(handler, runs__in_the_thread_that_makes_progress_with_the_whole_status) {
  static std::thread::id where;
  static lci::status_t got;
  static int calls;
  calls = 0;
  owned_comp handler(lci::alloc_handler([](lci::status_t status) {
    where = std::this_thread::get_id();
    got = status;
    ++calls;
  }));
  EXPECT_EQ(lci::comp_t(handler).get_attr_comp_type(), lci::attr_comp_type_t::handler);
  char in = 0, out = 3;
  lci::post_recv_x(world().previous(), &in, 1, 9, handler)
      .device(world().device)
      .user_context(&in)
      .allow_done(false)();
  lci::post_send_x(world().next(), &out, 1, 9, lci::COMP_NULL).device(world().device)();
  wait_until([] { return calls != 0; });
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(where, std::this_thread::get_id());
  EXPECT_EQ(got.user_context, &in);
  EXPECT_EQ(got.rank, world().previous());
  EXPECT_EQ(in, 3);
}

// What user code throws reaches the caller of progress, and the others' messages are delivered all
// the same.
TEST(handler, exception__leaves_progress_and_loses_no_message) {
  struct own_error {};
  static int calls;
  calls = 0;
  owned_comp handler(lci::alloc_handler([](lci::status_t) {
    if (++calls == 2) throw own_error();
  }));
  constexpr int COUNT = 5;
  char in[COUNT] = {}, out = 3;
  for (char& byte : in)
    lci::post_recv_x(world().rank, &byte, 1, 9, handler).device(world().device)();
  int thrown = 0;
  for (int sent = 0; sent < COUNT || calls < COUNT;) {
    try {
      if (sent < COUNT && lci::post_send_x(world().rank, &out, 1, 9, lci::COMP_NULL_RETRY)
                              .device(world().device)()
                              .is_done())
        ++sent;
      progress();
    } catch (const own_error&) {
      ++thrown;
    }
  }
  EXPECT_EQ(calls, COUNT);
  EXPECT_EQ(thrown, 1);
}

TEST(handler, progress__may_be_called_from_inside) {
  static int depth, deepest, calls;
  depth = deepest = calls = 0;
  owned_comp handler(lci::alloc_handler([](lci::status_t) {
    ++calls;
    deepest = std::max(deepest, ++depth);
    if (depth < 5) progress();
    --depth;
  }));
  signal_by_messages(handler, 50);
  wait_until([] { return calls == 50; });
  EXPECT_GE(deepest, 1);
}

class own_object : public lci::comp_impl_t {
 public:
  explicit own_object(bool zero_copy) { attr.zero_copy_am = zero_copy; }
  void signal(lci::status_t status) override {
    last = status;
    ++signals;
  }
  lci::status_t last;
  int signals = 0;
};

TEST(custom, object__is_a_target_like_any_other) {
  for (const bool zero_copy : {false, true}) {
    own_object object(zero_copy);
    const lci::comp_t comp(static_cast<void*>(&object));
    EXPECT_EQ(comp.get_impl(), &object);
    EXPECT_EQ(comp.get_attr_comp_type(), lci::attr_comp_type_t::custom);
    const lci::rcomp_t rcomp = lci::register_rcomp(comp);
    barrier();
    std::vector<char> out = pattern(200, 2);
    lci::post_am_x(world().next(), out.data(), out.size(), lci::COMP_NULL, rcomp)
        .device(world().device)();
    wait_until([&] { return object.signals == 1; });
    EXPECT_EQ(object.last.rank, world().previous());
    EXPECT_EQ(difference(object.last.buffer, object.last.size, 2), "");
    if (zero_copy) {
      lci::put_upacket(object.last.buffer);
    } else {
      std::free(object.last.buffer);
    }
    barrier();
    lci::deregister_rcomp(rcomp);
  }
}

TEST(kinds, wrong_one__is_refused_and_named) {
  owned_comp counter(lci::alloc_counter()), cq(lci::alloc_cq()),
      sync(lci::alloc_sync_x().threshold(1)());
  EXPECT_NE(text_thrown<lci::argument_error>([&] { lci::cq_pop(counter); }).find("counter"),
            std::string::npos);
  EXPECT_NE(text_thrown<lci::argument_error>([&] { lci::counter_get(cq); }).find("queue"),
            std::string::npos);
  EXPECT_NE(text_thrown<lci::argument_error>([&] { lci::sync_test(cq, nullptr); }).find("queue"),
            std::string::npos);
  EXPECT_NE(text_thrown<lci::argument_error>([&] { lci::counter_set(sync, 1); }).find("sync"),
            std::string::npos);
  EXPECT_THROW(lci::alloc_sync_x().threshold(0)(), lci::argument_error);
  EXPECT_THROW(lci::alloc_sync_x().threshold(-1)(), lci::argument_error);
  EXPECT_THROW(lci::alloc_handler(nullptr), lci::argument_error);
}

TEST(names, name_and_context__are_stored_by_pointer) {
  static const char* const NAME = "inbound";
  int context = 0;
  owned_comp cq(lci::alloc_cq_x().name(NAME).user_context(&context)());
  EXPECT_EQ(lci::comp_t(cq).get_attr_name(), NAME);
  EXPECT_EQ(lci::comp_t(cq).get_attr_user_context(), &context);
  owned_comp other(lci::alloc_cq());
  EXPECT_STREQ(lci::comp_t(other).get_attr_name(), "unnamed");
  EXPECT_EQ(lci::comp_t(other).get_attr_user_context(), nullptr);
}

TEST(objects, outlive__the_device_that_they_served) {
  lci::device_t device = lci::alloc_device();
  owned_comp cq(lci::alloc_cq());
  char in = 0, out = 5;
  lci::post_recv_x(world().previous(), &in, 1, 2, cq).device(device)();
  lci::post_send_x(world().next(), &out, 1, 2, lci::COMP_NULL).device(device)();
  while (lci::cq_pop(cq).is_retry()) lci::progress_x().device(device)();
  EXPECT_EQ(in, 5);
  barrier_over({device});
  lci::free_device(&device);
  EXPECT_TRUE(device.is_empty());
  lci::comp_signal(cq, numbered(1));
  EXPECT_TRUE(lci::cq_pop(cq).is_done());
}

}  // namespace
}  // namespace interface_test
