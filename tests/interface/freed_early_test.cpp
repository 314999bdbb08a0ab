// Completion objects that are freed while something still refers to them: an error where it can be
// known, else one that names the operation, the peer and the tag. Ranks talk to themselves where
// they can, so that no other call meets the error.
#include <cstdlib>
#include <functional>

#include "world.hpp"

namespace interface_test {
namespace {

// What progress throws, with nothing else under way; or "nothing thrown" once one of `others` is
// signalled, which nobody gave to an operation.
std::string text_of_progress(const std::vector<lci::comp_t>& others = {}) {
  return text_thrown<lci::argument_error>([&] {
    for (unsigned round = 1;; ++round) {
      progress();
      if (round % 1024 != 0) continue;  // there may be many of them
      for (const lci::comp_t each : others)
        if (lci::counter_get(each) != 0) return;
    }
  });
}

// Makes and frees so many counters that any memory of one that may be used again is; answers those
// that are made last, alive.
std::vector<lci::comp_t> reuse_memory(int count = 300) {
  std::vector<lci::comp_t> all;
  for (int i = 0; i < count; ++i) all.push_back(lci::alloc_counter());
  for (lci::comp_t& each : all) lci::free_comp(&each);
  all.clear();
  for (int i = 0; i < count; ++i) all.push_back(lci::alloc_counter());
  return all;
}

// So many that the memory of each that was freed before is another one's now.
constexpr int MANY = 4300;

void free_all(std::vector<lci::comp_t>& all) {
  for (lci::comp_t& each : all) lci::free_comp(&each);
}

void expect_parts(const std::string& text, std::initializer_list<std::string> parts) {
  for (const std::string& part : parts)
    EXPECT_NE(text.find(part), std::string::npos) << part << " in: " << text;
}

TEST(freed_early, receive) {
  for (const std::size_t size : {std::size_t{8}, world().bcopy, std::size_t{1} << 20}) {
    std::vector<char> in(size), out(size);
    lci::comp_t cq = lci::alloc_cq();
    lci::post_recv_x(world().rank, in.data(), size, 77, cq)
        .device(world().device)
        .allow_done(false)();
    lci::free_comp(&cq);
    owned_comp sent(lci::alloc_cq());
    insist(lci::post_send_x(world().rank, out.data(), size, 77, sent)
               .device(world().device)
               .allow_done(false));
    expect_parts(text_of_progress(),
                 {"a receive", "rank " + std::to_string(world().rank), "tag 77", "freed"});
    pop(sent);
  }
}

TEST(freed_early, send) {
  std::vector<char> in(1 << 20), out(1 << 20);
  lci::comp_t cq = lci::alloc_cq();
  const lci::status_t answer = insist(lci::post_send_x(world().rank, out.data(), out.size(), 78, cq)
                                          .device(world().device)
                                          .allow_done(false));
  ASSERT_TRUE(answer.is_posted());
  lci::free_comp(&cq);
  owned_comp received(lci::alloc_cq());
  lci::post_recv_x(world().rank, in.data(), in.size(), 78, received)
      .device(world().device)
      .allow_done(false)();
  expect_parts(text_of_progress(),
               {"a send", "rank " + std::to_string(world().rank), "tag 78", "freed"});
  pop(received);
}

// Puts and gets: of another rank, since with oneself they end inside of the post. Large ones need
// progress, so they have not ended when the object is freed.
class freed_early_rma : public testing::TestWithParam<bool> {
 protected:
  template <class Op>
  void expect_news(Op op, const char* what) {
    if (world().n == 1) GTEST_SKIP() << "there is no other rank";
    lci::comp_t counter = lci::alloc_counter();
    const lci::status_t answer =
        insist(op.local_comp(counter).device(world().device).tag(81).allow_done(false));
    ASSERT_TRUE(answer.is_posted());
    ASSERT_EQ(lci::counter_get(counter), 0) << "it has ended inside of the post";
    lci::free_comp(&counter);
    std::vector<lci::comp_t> others;
    if (GetParam()) others = reuse_memory(MANY);
    expect_parts(text_of_progress(others), {what, std::to_string(to_), "tag 81", "freed"});
    barrier();
    free_all(others);
  }
  const int to_ = world().next();
  window there_{SIZE};
  std::vector<char> here_ = std::vector<char>(SIZE);
  static constexpr std::size_t SIZE = std::size_t{4} << 20;
};
INSTANTIATE_TEST_SUITE_P(memory, freed_early_rma, testing::Bool(), [](const auto& is_reused) {
  return std::string(is_reused.param ? "is_used_again" : "is_left_alone");
});

TEST_P(freed_early_rma, get) {
  expect_news(lci::post_get_x(to_, here_.data(), SIZE, lci::comp_t(), 0, there_.rmr(to_)),
              "a get from rank ");
}

TEST_P(freed_early_rma, put) {
  expect_news(lci::post_put_x(to_, here_.data(), SIZE, lci::comp_t(), 0, there_.rmr(to_))
                  .mr(lci::MR_HOST)
                  .comp_semantic(lci::comp_semantic_t::network),
              "a put to rank ");
}

// Does something else when it is asked for memory: then a large active message has been announced,
// and its bytes have not come yet.
class busy_allocator final : public lci::allocator_base_t {
 public:
  explicit busy_allocator(std::function<void()> work) : work_(std::move(work)) {}
  void* allocate(std::size_t size) override {
    ++times;
    work_();
    return std::malloc(size);
  }
  void deallocate(void* at) override {
    if (at != nullptr) ++given_back;
    std::free(at);
  }
  int times = 0;
  int given_back = 0;

 private:
  std::function<void()> work_;
};

TEST(freed_early, object_of_a_large_active_message) {
  std::vector<char> out(1 << 20);
  for (const bool is_reused : {false, true}) {
    lci::comp_t counter = lci::alloc_counter();
    const lci::rcomp_t rcomp = lci::register_rcomp(counter);
    std::vector<lci::comp_t> others;
    busy_allocator freeing([&] {
      lci::free_comp(&counter);
      if (is_reused) others = reuse_memory(MANY);
    });
    lci::allocator_base_t* const before = lci::get_allocator();
    lci::set_allocator(&freeing);
    owned_comp sent(lci::alloc_cq());
    insist(lci::post_am_x(world().rank, out.data(), out.size(), sent, rcomp)
               .device(world().device)
               .tag(83)
               .allow_done(false));
    expect_parts(text_of_progress(others),
                 {"a message from rank " + std::to_string(world().rank), "tag 83", "freed"});
    EXPECT_EQ(freeing.times, 1);
    EXPECT_EQ(freeing.given_back, 1) << "nobody else has the buffer";
    pop(sent);
    lci::set_allocator(before);
    lci::deregister_rcomp(rcomp);
    free_all(others);
  }
}

// The message does not signal what was made meanwhile, however much that is.
TEST(freed_early, receive__long_before_others_are_made) {
  for (const int count : {300, MANY}) {
    int in = 0, out = 1;
    lci::comp_t counter = lci::alloc_counter();
    lci::post_recv_x(world().rank, &in, sizeof in, 77, counter)
        .device(world().device)
        .allow_done(false)();
    lci::free_comp(&counter);
    std::vector<lci::comp_t> others = reuse_memory(count);
    insist(lci::post_send_x(world().rank, &out, sizeof out, 77, lci::COMP_NULL)
               .device(world().device));
    expect_parts(text_of_progress(others), {"a receive", "tag 77", "freed"});
    free_all(others);
  }
}

// As programs do that make a synchronizer for each message: the one that stands there now is not
// ready because of another one's message.
TEST(freed_early, synchronizer_of_each_message) {
  int in = 0, out = 1;
  lci::comp_t first = lci::alloc_sync_x().threshold(1)();
  const lci::comp_t place = first;
  lci::post_recv_x(world().rank, &in, sizeof in, 84, first)
      .device(world().device)
      .allow_done(false)();
  lci::free_comp(&first);
  lci::comp_t other;
  for (int i = 0; i < 100000 && other != place; ++i) {
    if (!other.is_empty()) lci::free_comp(&other);
    other = lci::alloc_sync_x().threshold(1)();
  }
  ASSERT_EQ(other, place) << "memory is used again at some time";
  insist(
      lci::post_send_x(world().rank, &out, sizeof out, 84, lci::COMP_NULL).device(world().device));
  expect_parts(text_thrown<lci::argument_error>([&] {
                 while (!lci::sync_test(other, nullptr)) progress();
               }),
               {"a receive", "tag 84", "freed"});
  EXPECT_FALSE(lci::sync_test(other, nullptr));
  lci::free_comp(&other);
}

TEST(freed_early, registration__long_before_others_are_made) {
  char bytes[8] = {};
  const auto make = [&] { return lci::register_memory_x(bytes, 8).device(world().device)(); };
  lci::mr_t mr = make();
  const lci::mr_t stale = mr;
  lci::deregister_memory(&mr);
  std::vector<lci::mr_t> others;
  for (int round = 0; round < 2; ++round) {
    for (lci::mr_t& each : others) lci::deregister_memory(&each);
    others.clear();
    for (int i = 0; i < 300; ++i) others.push_back(make());
  }
  expect_parts(text_thrown<lci::argument_error>([&] {
                 lci::post_send_x(world().rank, bytes, 8, 1, lci::COMP_NULL)
                     .device(world().device)
                     .mr(stale)();
               }),
               {"mr", "freed"});
  for (lci::mr_t& each : others) lci::deregister_memory(&each);
}

TEST(freed_early, number_of_an_object) {
  lci::comp_t cq = lci::alloc_cq();
  const lci::rcomp_t rcomp = lci::register_rcomp(cq);
  lci::free_comp(&cq);
  busy_allocator counting([] {});
  lci::allocator_base_t* const before = lci::get_allocator();
  lci::set_allocator(&counting);
  int word = 5;
  insist(lci::post_am_x(world().rank, &word, sizeof word, lci::COMP_NULL, rcomp)
             .device(world().device)
             .tag(79));
  expect_parts(text_of_progress(),
               {"a message", "rank " + std::to_string(world().rank), "tag 79", "freed"});
  EXPECT_EQ(counting.given_back, counting.times) << "nobody else has the buffer";
  lci::set_allocator(before);
  lci::deregister_rcomp(rcomp);
}

// However many objects are made after it, none of them gets its number.
TEST(freed_early, number_of_an_object__for_good) {
  for (const bool is_long_after : {false, true}) {
    lci::comp_t counter = lci::alloc_counter();
    const lci::rcomp_t rcomp = lci::register_rcomp(counter), second = lci::register_rcomp(counter);
    lci::free_comp(&counter);
    std::vector<lci::comp_t> others = reuse_memory(is_long_after ? MANY : 50);
    for (const lci::rcomp_t number : {rcomp, second}) {
      int word = 5;
      insist(lci::post_am_x(world().rank, &word, sizeof word, lci::COMP_NULL, number)
                 .device(world().device)
                 .tag(79));
      expect_parts(text_of_progress(others),
                   {"a message", "rank " + std::to_string(world().rank), "tag 79", "freed"});
    }
    free_all(others);
    lci::deregister_rcomp(rcomp);
    lci::deregister_rcomp(second);
    EXPECT_THROW(lci::deregister_rcomp(second), lci::argument_error);
  }
}

lci::graph_node_t waiting_node;
TEST(freed_early, graph_that_runs) {
  lci::comp_t graph = lci::alloc_graph();
  waiting_node =
      lci::graph_add_node(graph, [](void*) { return lci::status_t(lci::errorcode_t::posted); });
  lci::graph_add_edge(graph, lci::GRAPH_START, waiting_node);
  lci::graph_add_edge(graph, waiting_node, lci::GRAPH_END);
  lci::graph_start(graph);
  expect_parts(text_thrown<lci::argument_error>([&] { lci::free_comp(&graph); }),
               {"free_comp", "graph", "not complete"});
  EXPECT_FALSE(graph.is_empty());
  lci::graph_node_mark_complete(waiting_node);
  EXPECT_TRUE(lci::graph_test(graph).is_done());
  lci::free_comp(&graph);
}

TEST(freed_early, object_that_a_running_graph_will_signal) {
  lci::comp_t counter = lci::alloc_counter();
  lci::comp_t graph = lci::alloc_graph_x().comp(counter)();
  waiting_node =
      lci::graph_add_node(graph, [](void*) { return lci::status_t(lci::errorcode_t::posted); });
  lci::graph_add_edge(graph, lci::GRAPH_START, waiting_node);
  lci::graph_add_edge(graph, waiting_node, lci::GRAPH_END);
  lci::graph_start(graph);
  expect_parts(text_thrown<lci::argument_error>([&] { lci::free_comp(&counter); }),
               {"free_comp", "counter", "running graph"});
  EXPECT_FALSE(counter.is_empty());
  lci::graph_node_mark_complete(waiting_node);
  EXPECT_EQ(lci::counter_get(counter), 1);
  lci::free_comp(&counter);
}

TEST(freed_early, object_of_a_graph_that_was_not_started) {
  lci::comp_t counter = lci::alloc_counter();
  lci::comp_t graph = lci::alloc_graph_x().comp(counter)();
  const lci::graph_node_t node = lci::graph_add_node(graph, lci::GRAPH_NODE_DUMMY_CB);
  lci::graph_add_edge(graph, lci::GRAPH_START, node);
  lci::graph_add_edge(graph, node, lci::GRAPH_END);
  lci::free_comp(&counter);
  expect_parts(text_thrown<lci::argument_error>([&] { lci::graph_start(graph); }),
               {"graph_start", "freed"});
  lci::free_comp(&graph);
}

// Rank 0 starts it before all others, so it cannot be over.
TEST(freed_early, object_that_a_running_collective_will_signal) {
  lci::comp_t counter = lci::alloc_counter();
  if (world().rank == 0) {
    lci::barrier_x().comp(counter).device(world().device)();
    if (world().n > 1) {
      expect_parts(text_thrown<lci::argument_error>([&] { lci::free_comp(&counter); }),
                   {"free_comp", "counter", "running barrier"});
      EXPECT_FALSE(counter.is_empty());
    }
    for (int to = 1; to < world().n; ++to)
      insist(lci::post_send_x(to, nullptr, 0, 82, lci::COMP_NULL).device(world().device));
  } else {
    lci::post_recv_x(0, nullptr, 0, 82, lci::COMP_NULL).device(world().device)();
    lci::barrier_x().comp(counter).device(world().device)();
  }
  wait_until([&] { return lci::counter_get(counter) == 1; });
  lci::free_comp(&counter);
}

}  // namespace
}  // namespace interface_test
