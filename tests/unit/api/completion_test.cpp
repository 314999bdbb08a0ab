// Operations on completion objects as a program calls them. None of these needs a runtime.
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "lci.hpp"

namespace {

using lci::comp_t;
using lci::errorcode_t;
using lci::status_t;

template <class Fn>
std::string error_of(Fn&& fn) {
  try {
    fn();
  } catch (const lci::argument_error& e) {
    return e.what();
  }
  return "";
}

void expect_text(const std::string& text, std::initializer_list<const char*> parts) {
  for (const char* part : parts)
    EXPECT_NE(text.find(part), std::string::npos) << "'" << text << "' lacks '" << part << "'";
}

int signals_seen = 0;

}  // namespace

TEST(alloc_sync, attributes__are_those_that_were_asked_for) {
  int context;
  comp_t s = lci::alloc_sync_x().threshold(3).zero_copy_am(true).name("s").user_context(&context)();
  EXPECT_EQ(s.get_attr_comp_type(), lci::attr_comp_type_t::sync);
  EXPECT_EQ(s.get_attr_sync_threshold(), 3);
  EXPECT_TRUE(s.get_attr_zero_copy_am());
  EXPECT_STREQ(s.get_attr_name(), "s");
  EXPECT_EQ(s.get_attr_user_context(), &context);
  lci::free_comp(&s);
  EXPECT_TRUE(s.is_empty());
}

TEST(alloc_sync, attributes__defaults_work_before_any_initialization) {
  comp_t s = lci::alloc_sync();
  EXPECT_EQ(s.get_attr_sync_threshold(), 1);
  EXPECT_STREQ(s.get_attr_name(), lci::DEFAULT_NAME);
  lci::free_comp(&s);
}

TEST(alloc_sync, threshold_below_one__is_refused) {
  expect_text(error_of([] { lci::alloc_sync_x().threshold(-1)(); }), {"threshold", "-1", "1 to "});
  expect_text(error_of([] { lci::alloc_sync_x().threshold(0)(); }), {"threshold", "0"});
}

TEST(alloc_handler, null_function__is_refused) {
  expect_text(error_of([] { lci::alloc_handler(nullptr); }), {"handler", "null"});
}

TEST(alloc_cq, length__reads_back) {
  comp_t q = lci::alloc_cq_x().cq_type(lci::attr_cq_type_t::array_atomic).default_length(10).call();
  EXPECT_EQ(q.get_attr_cq_default_length(), 10);
  EXPECT_EQ(q.get_attr_cq_type(), lci::attr_cq_type_t::array_atomic);
  lci::free_comp(&q);
}

TEST(alloc_cq, per_thread__is_a_completion_queue_like_any_other) {
  comp_t q = lci::alloc_cq_x().cq_type(lci::attr_cq_type_t::per_thread).call();
  EXPECT_EQ(q.get_attr_comp_type(), lci::attr_comp_type_t::cq);
  EXPECT_EQ(q.get_attr_cq_type(), lci::attr_cq_type_t::per_thread);
  EXPECT_TRUE(lci::cq_pop(q).is_retry());
  expect_text(error_of([&] { lci::comp_signal(q, errorcode_t::retry); }), {"comp_signal", "done"});
  for (std::uint64_t i = 0; i < 3; ++i) {
    status_t status = errorcode_t::done;
    status.tag = i;
    lci::comp_signal(q, status);
  }
  EXPECT_EQ(lci::cq_pop(q).tag, 0u);
  const comp_t freed = q;
  lci::free_comp(&q);  // with two statuses inside
  expect_text(error_of([&] { lci::cq_pop(freed); }), {"cq_pop", "freed"});
  expect_text(error_of([&] { lci::comp_signal(freed, errorcode_t::done); }), {"freed"});
}

// Each round another thread signals the last status, which may still be inside the call when the
// queue is freed.
TEST(free_comp, per_thread__at_once_after_the_last_status) {
  constexpr int ROUNDS = 200, EACH = 70;
  std::vector<std::atomic<lci::comp_impl_t*>> rounds(ROUNDS);
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t)
    threads.emplace_back([&] {
      for (auto& round : rounds) {
        comp_t q;
        while ((q.p_impl = round.load()) == nullptr) std::this_thread::yield();
        for (int i = 0; i < EACH; ++i) lci::comp_signal(q, errorcode_t::done);
      }
    });
  for (auto& round : rounds) {
    comp_t q = lci::alloc_cq_x().cq_type(lci::attr_cq_type_t::per_thread).call();
    round = q.p_impl;
    for (int taken = 0; taken < 2 * EACH;)
      if (lci::cq_pop(q).is_done())
        ++taken;
      else
        std::this_thread::yield();
    lci::free_comp(&q);
  }
  for (std::thread& one : threads) one.join();
}

TEST(sync_test, failed_test__leaves_the_status_untouched) {
  comp_t s = lci::alloc_sync();
  status_t status;
  EXPECT_FALSE(lci::sync_test(s, &status));
  EXPECT_FALSE(status.is_done());
  lci::comp_signal(s, errorcode_t::done);
  EXPECT_TRUE(lci::sync_test(s, &status));
  EXPECT_TRUE(status.is_done());
  lci::free_comp(&s);
}

TEST(sync_wait, without_a_runtime__just_waits) {
  comp_t s = lci::alloc_sync();
  std::thread other([&] { lci::comp_signal(s, errorcode_t::done); });
  status_t status;
  lci::sync_wait(s, &status);
  EXPECT_TRUE(status.is_done());
  other.join();
  lci::comp_signal(s, errorcode_t::done);
  lci::sync_wait_x(s, nullptr).do_progress(false)();
  lci::free_comp(&s);
}

TEST(counter, get_set_signal) {
  comp_t c = lci::alloc_counter();
  EXPECT_EQ(lci::counter_get(c), 0);
  lci::comp_signal(c, errorcode_t::done);
  EXPECT_EQ(lci::counter_get(c), 1);
  lci::counter_set(c, 10);
  EXPECT_EQ(lci::counter_get(c), 10);
  lci::free_comp(&c);
}

TEST(cq_pop, statuses__come_in_order_and_then_retry) {
  comp_t q = lci::alloc_cq();
  for (lci::tag_t i = 0; i < 3; ++i) {
    status_t s = errorcode_t::done;
    s.tag = i;
    lci::comp_signal(q, s);
  }
  for (lci::tag_t i = 0; i < 3; ++i) EXPECT_EQ(lci::cq_pop(q).get_tag(), i);
  EXPECT_TRUE(lci::cq_pop(q).is_retry());
  expect_text(error_of([&] { lci::comp_signal(q, errorcode_t::retry); }), {"status", "retry"});
  EXPECT_TRUE(lci::cq_pop(q).is_retry());
  lci::free_comp(&q);
}

TEST(comp_signal, handler_and_user_object__are_called) {
  signals_seen = 0;
  comp_t h = lci::alloc_handler([](status_t) { ++signals_seen; });
  lci::comp_signal(h, errorcode_t::done);
  EXPECT_EQ(signals_seen, 1);
  struct mine : lci::comp_impl_t {
    void signal(status_t) override { ++signals_seen; }
  } object;
  lci::comp_signal(comp_t(&object), errorcode_t::done);
  EXPECT_EQ(signals_seen, 2);
  EXPECT_EQ(comp_t(&object).get_attr_comp_type(), lci::attr_comp_type_t::custom);
  lci::free_comp(&h);
}

TEST(wrong_kind, error__names_both_kinds_and_the_operation) {
  comp_t c = lci::alloc_counter(), s = lci::alloc_sync();
  status_t status;
  expect_text(error_of([&] { lci::cq_pop(c); }), {"cq_pop", "counter", "completion queue"});
  expect_text(error_of([&] { lci::sync_test(c, &status); }), {"sync_test", "counter", "synchro"});
  expect_text(error_of([&] { lci::sync_wait(c, &status); }), {"sync_wait", "counter", "synchro"});
  expect_text(error_of([&] { lci::counter_get(s); }), {"counter_get", "synchronizer", "a counter"});
  expect_text(error_of([&] { lci::counter_set(s, 1); }), {"counter_set", "synchronizer"});
  expect_text(error_of([&] { lci::graph_start(s); }), {"graph_start", "synchronizer", "graph"});
  expect_text(error_of([&] { lci::graph_test(s); }), {"graph_test", "synchronizer", "graph"});
  lci::free_comp(&c);
  lci::free_comp(&s);
}

TEST(freed_handle, every_operation__gives_a_typed_error) {
  comp_t kinds[] = {lci::alloc_counter(), lci::alloc_sync(), lci::alloc_cq(),
                    lci::alloc_handler([](status_t) {}), lci::alloc_graph()};
  for (comp_t& live : kinds) {
    comp_t stale = live;
    lci::free_comp(&live);
    status_t status;
    expect_text(error_of([&] { lci::counter_get(stale); }), {"counter_get", "was freed"});
    expect_text(error_of([&] { lci::cq_pop(stale); }), {"cq_pop", "was freed"});
    expect_text(error_of([&] { lci::sync_test(stale, &status); }), {"sync_test", "was freed"});
    expect_text(error_of([&] { lci::graph_start(stale); }), {"graph_start", "was freed"});
    expect_text(error_of([&] { lci::comp_signal(stale, errorcode_t::done); }), {"was freed"});
    expect_text(error_of([&] { stale.get_attr(); }), {"was freed"});
    expect_text(error_of([&] { lci::free_comp(&stale); }), {"free_comp", "was freed"});
    EXPECT_FALSE(stale.is_empty()) << "nothing was changed";
  }
}

TEST(empty_handle, operations__say_so) {
  comp_t empty;
  expect_text(error_of([&] { lci::cq_pop(empty); }), {"cq_pop", "empty"});
  expect_text(error_of([&] { lci::comp_signal(lci::COMP_NULL_RETRY, errorcode_t::done); }),
              {"comp_signal", "empty"});
  expect_text(error_of([&] { lci::free_comp(&empty); }), {"free_comp", "empty"});
  expect_text(error_of([] { lci::free_comp(nullptr); }), {"free_comp", "null"});
}

TEST(graph, operations__run_from_start_to_end_and_again) {
  int context;
  comp_t g = lci::alloc_graph_x().user_context(&context)();
  static int ran;
  ran = 0;
  const auto a = lci::graph_add_node(g, [](void*) -> status_t {
    ++ran;
    return errorcode_t::posted;
  });
  lci::graph_add_edge(g, lci::GRAPH_START, a);
  lci::graph_add_edge(g, a, lci::GRAPH_END);
  EXPECT_TRUE(lci::graph_test(g).is_retry());
  for (int round = 1; round <= 2; ++round) {
    lci::graph_start(g);
    EXPECT_TRUE(lci::graph_test(g).is_retry());
    EXPECT_EQ(ran, round);
    lci::graph_node_mark_complete(a);
    const status_t done = lci::graph_test(g);
    EXPECT_TRUE(done.is_done());
    EXPECT_EQ(done.user_context, &context);
  }
  lci::free_comp(&g);
  expect_text(error_of([&] { lci::graph_node_mark_complete(a); }), {"node", "was freed"});
}

namespace {

// What graph_add_node_op() asks of an operation: a call operator and user_context().
template <class Answer>
struct fake_op {
  comp_t graph;
  int* calls;
  Answer answer;
  void* context = nullptr;
  fake_op& user_context(void* value) {
    context = value;
    return *this;
  }
  Answer operator()() const {
    ++*calls;
    if constexpr (std::is_same_v<Answer, status_t>) {
      if (answer.is_posted()) pending.push_back(context);
    }
    return answer;
  }
  static inline std::vector<void*> pending;
};

}  // namespace

TEST(graph_add_node_op, answers__status_and_code_are_honoured_others_are_done) {
  int calls = 0;
  comp_t done = lci::alloc_counter();
  comp_t g = lci::alloc_graph_x().comp(done)();
  const auto a = lci::graph_add_node_op(g, fake_op<status_t>{g, &calls, errorcode_t::posted});
  const auto b = lci::graph_add_node_op(g, fake_op<errorcode_t>{g, &calls, errorcode_t::done});
  const auto c = lci::graph_add_node_op(g, fake_op<int>{g, &calls, 5});
  lci::graph_add_edge(g, lci::GRAPH_START, a);
  lci::graph_add_edge(g, a, b);
  lci::graph_add_edge(g, b, c);
  lci::graph_add_edge(g, c, lci::GRAPH_END);
  lci::graph_start(g);
  ASSERT_EQ(fake_op<status_t>::pending, std::vector<void*>{a});
  EXPECT_EQ(calls, 1);
  status_t s = errorcode_t::done;
  s.user_context = a;
  lci::comp_signal(g, s);  // what the completion of the operation does
  EXPECT_EQ(calls, 3);
  EXPECT_EQ(lci::counter_get(done), 1);
  lci::free_comp(&done);
}
