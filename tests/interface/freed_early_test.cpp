// Completion objects that are freed while something still refers to them: an error where it can be
// known, else one that names the operation, the peer and the tag. Ranks talk to themselves, so that
// no other call meets the error.
#include "world.hpp"

namespace interface_test {
namespace {

// What progress throws, with nothing else under way; or "nothing thrown" once one of `others` is
// signalled, which nobody gave to an operation.
std::string text_of_progress(const std::vector<lci::comp_t>& others = {}) {
  return text_thrown<lci::argument_error>([&] {
    for (;;) {
      progress();
      for (const lci::comp_t each : others)
        if (lci::cq_pop(each).is_done()) return;
    }
  });
}

// Makes and frees so many objects that any memory that may be used again is; answers a few of them,
// alive.
std::vector<lci::comp_t> reuse_memory(int count = 300) {
  const auto make = [] { return lci::alloc_cq_x().cq_type(lci::attr_cq_type_t::lcrq)(); };
  std::vector<lci::comp_t> all;
  for (int i = 0; i < count; ++i) all.push_back(make());
  for (lci::comp_t& each : all) lci::free_comp(&each);
  all.clear();
  for (int i = 0; i < count; ++i) all.push_back(make());
  return all;
}

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

TEST(freed_early, get) {
  window memory(1 << 20);
  std::vector<char> in(1 << 20);
  lci::comp_t cq = lci::alloc_cq();
  const lci::status_t answer =
      insist(lci::post_get_x(world().rank, in.data(), in.size(), cq, 0, memory.rmr(world().rank))
                 .device(world().device)
                 .tag(81)
                 .allow_done(false));
  // Where the bytes are there at once the object has been told already.
  if (answer.is_posted() && lci::cq_pop(cq).is_retry()) {
    lci::free_comp(&cq);
    expect_parts(text_of_progress(),
                 {"a get", "from rank " + std::to_string(world().rank), "tag 81", "freed"});
  } else {
    lci::free_comp(&cq);
  }
}

// The message does not signal what was made meanwhile.
TEST(freed_early, receive__long_before_others_are_made) {
  int in = 0, out = 1;
  lci::comp_t cq = lci::alloc_cq();
  lci::post_recv_x(world().rank, &in, sizeof in, 77, cq).device(world().device).allow_done(false)();
  lci::free_comp(&cq);
  std::vector<lci::comp_t> others = reuse_memory();
  insist(
      lci::post_send_x(world().rank, &out, sizeof out, 77, lci::COMP_NULL).device(world().device));
  expect_parts(text_of_progress(others), {"a receive", "tag 77", "freed"});
  free_all(others);
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
  int word = 5;
  insist(lci::post_am_x(world().rank, &word, sizeof word, lci::COMP_NULL, rcomp)
             .device(world().device)
             .tag(79));
  expect_parts(text_of_progress(),
               {"a message", "rank " + std::to_string(world().rank), "tag 79", "freed"});
  lci::deregister_rcomp(rcomp);
}

// However many objects are made after it, none of them gets its number.
TEST(freed_early, number_of_an_object__for_good) {
  for (const bool is_long_after : {false, true}) {
    lci::comp_t cq = lci::alloc_cq();
    const lci::rcomp_t rcomp = lci::register_rcomp(cq), second = lci::register_rcomp(cq);
    lci::free_comp(&cq);
    std::vector<lci::comp_t> others = reuse_memory(is_long_after ? 5000 : 50);
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
