#include "lci/comp/graph.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "lci/comp/signal.hpp"
#include "lci/errors.hpp"
#include "tests/support/must_fire.hpp"
#include "tests/support/seed.hpp"

using lci::comp_attr_t;
using lci::comp_t;
using lci::errorcode_t;
using lci::GRAPH_END;
using lci::graph_node_t;
using lci::GRAPH_START;
using lci::status_t;
using lci::base::free_live;
using lci::base::make_live;
using lci::comp::graph;

namespace {

// A node's value: writes its name into the log when it runs.
struct step {
  std::string* log;
  char name;
  status_t answer = errorcode_t::done;
};
status_t run_step(void* value) {
  auto* s = static_cast<step*>(value);
  *s->log += s->name;
  return s->answer;
}

class graphs : public testing::Test {
 protected:
  void TearDown() override {
    if (graph_ != nullptr) free_live(graph_, "graph");
  }
  graph_node_t add(char name, status_t answer = errorcode_t::done) {
    steps_.push_back(std::make_unique<step>(step{&log_, name, answer}));
    return graph_->add_node(&run_step, steps_.back().get(), nullptr);
  }
  void edge(graph_node_t from, graph_node_t to) { graph_->add_edge(from, to, nullptr); }

  std::string log_;
  std::vector<std::unique_ptr<step>> steps_;
  graph* graph_ = make_live<graph>(comp_attr_t(), comp_t());
};

}  // namespace

TEST_F(graphs, start__runs_a_chain_in_order_and_completes) {
  const auto a = add('a'), b = add('b'), c = add('c');
  edge(GRAPH_START, a);
  edge(a, b);
  edge(b, c);
  edge(c, GRAPH_END);
  EXPECT_FALSE(graph_->is_complete());
  graph_->start();
  EXPECT_EQ(log_, "abc");
  EXPECT_TRUE(graph_->is_complete());
}

TEST_F(graphs, start__node_waits_for_all_incoming_edges) {
  const auto a = add('a'), b = add('b'), c = add('c');
  edge(GRAPH_START, a);
  edge(GRAPH_START, b);
  edge(a, c);
  edge(b, c);
  edge(c, GRAPH_END);
  graph_->start();
  EXPECT_EQ(log_, "abc");
}

TEST_F(graphs, start__a_completed_graph_runs_again) {
  const auto a = add('a'), b = add('b');
  edge(GRAPH_START, a);
  edge(a, b);
  edge(b, GRAPH_END);
  for (int i = 0; i < 3; ++i) {
    graph_->start();
    EXPECT_TRUE(graph_->is_complete());
  }
  EXPECT_EQ(log_, "ababab");
}

TEST_F(graphs, start__edge_from_start_to_end_completes_at_once) {
  edge(GRAPH_START, GRAPH_END);
  graph_->start();
  EXPECT_TRUE(graph_->is_complete());
}

TEST_F(graphs, start__nothing_between_start_and_end_is_complete_at_once) {
  EXPECT_FALSE(graph_->is_complete());
  for (int round = 0; round < 3; ++round) {
    graph_->start();
    EXPECT_TRUE(graph_->is_complete());
  }
  edge(GRAPH_START, GRAPH_END);
  graph_->start();
  EXPECT_TRUE(graph_->is_complete());
}

TEST_F(graphs, start__without_edge_to_the_end_is_refused) {
  edge(GRAPH_START, add('a'));
  EXPECT_THROW(graph_->start(), lci::argument_error);
  EXPECT_EQ(log_, "");
}

TEST_F(graphs, start__dummy_node_completes_at_once) {
  const auto a = graph_->add_node(lci::GRAPH_NODE_DUMMY_CB, nullptr, nullptr);
  edge(GRAPH_START, a);
  edge(a, GRAPH_END);
  graph_->start();
  EXPECT_TRUE(graph_->is_complete());
}

TEST_F(graphs, start__long_chain_needs_no_stack) {
  graph_node_t last = GRAPH_START;
  for (int i = 0; i < 200000; ++i) {
    const auto next = graph_->add_node(nullptr, nullptr, nullptr);
    edge(last, next);
    last = next;
  }
  edge(last, GRAPH_END);
  graph_->start();
  EXPECT_TRUE(graph_->is_complete());
}

TEST_F(graphs, complete__posted_node_holds_back_what_depends_on_it) {
  const auto a = add('a', errorcode_t::posted), b = add('b');
  edge(GRAPH_START, a);
  edge(a, b);
  edge(b, GRAPH_END);
  graph_->start();
  EXPECT_EQ(log_, "a");
  EXPECT_FALSE(graph_->is_complete());
  status_t s = errorcode_t::done;
  s.user_context = a;
  lci::comp::signal(graph_, s);
  EXPECT_EQ(log_, "ab");
  EXPECT_TRUE(graph_->is_complete());
}

TEST_F(graphs, complete__twice_or_too_early_is_refused_and_changes_nothing) {
  const auto a = add('a', errorcode_t::posted), b = add('b', errorcode_t::posted);
  edge(GRAPH_START, a);
  edge(a, b);
  edge(b, GRAPH_END);
  EXPECT_THROW(graph_->complete(a, errorcode_t::done), lci::argument_error);
  graph_->start();
  EXPECT_THROW(graph_->complete(b, errorcode_t::done), lci::argument_error);
  graph_->complete(a, errorcode_t::done);
  EXPECT_THROW(graph_->complete(a, errorcode_t::done), lci::argument_error);
  EXPECT_FALSE(graph_->is_complete());
  graph_->complete(b, errorcode_t::done);
  EXPECT_TRUE(graph_->is_complete());
}

TEST_F(graphs, complete__node_of_another_graph_or_none_is_refused) {
  graph* other = make_live<graph>(comp_attr_t(), comp_t());
  const auto theirs = other->add_node(nullptr, nullptr, nullptr);
  EXPECT_THROW(graph_->complete(theirs, errorcode_t::done), lci::argument_error);
  EXPECT_THROW(graph_->complete(nullptr, errorcode_t::done), lci::argument_error);
  EXPECT_THROW(edge(GRAPH_START, theirs), lci::argument_error);
  free_live(other, "graph");
  EXPECT_THROW(graph_->complete(theirs, errorcode_t::done), lci::argument_error) << "a freed node";
}

TEST_F(graphs, add_edge__nonsense_is_refused) {
  const auto a = add('a');
  EXPECT_THROW(edge(GRAPH_END, a), lci::argument_error);
  EXPECT_THROW(edge(a, GRAPH_START), lci::argument_error);
  EXPECT_THROW(edge(a, a), lci::argument_error);
  EXPECT_THROW(edge(a, nullptr), lci::argument_error);
}

TEST_F(graphs, add_node__while_a_round_is_on_is_refused) {
  const auto a = add('a', errorcode_t::posted);
  edge(GRAPH_START, a);
  edge(a, GRAPH_END);
  graph_->start();
  EXPECT_THROW(add('b'), lci::argument_error);
  EXPECT_THROW(edge(GRAPH_START, GRAPH_END), lci::argument_error);
  EXPECT_THROW(graph_->start(), lci::argument_error);
  graph_->complete(a, errorcode_t::done);
  EXPECT_NO_THROW(add('b'));
}

TEST_F(graphs, edge_function__gets_the_status_and_both_values_each_time) {
  struct seen {
    int calls = 0;
    lci::tag_t tag = 0;
  };
  static seen record;
  record = {};
  int src = 1, dst = 2;
  static void *expected_src, *expected_dst;
  expected_src = &src;
  expected_dst = &dst;
  const auto tagged = [](void*) {
    status_t s = errorcode_t::done;
    s.tag = 9;
    return s;
  };
  const auto a = graph_->add_node(tagged, &src, nullptr);
  const auto b = graph_->add_node(nullptr, &dst, nullptr);
  edge(GRAPH_START, a);
  graph_->add_edge(a, b, [](status_t s, void* from, void* to) {
    EXPECT_EQ(from, expected_src);
    EXPECT_EQ(to, expected_dst);
    ++record.calls;
    record.tag = s.tag;
  });
  edge(b, GRAPH_END);
  graph_->start();
  graph_->start();
  EXPECT_EQ(record.calls, 2);
  EXPECT_EQ(record.tag, 9u);
}

TEST_F(graphs, node_function__that_answers_retry_throws) {
  const auto a = add('a', errorcode_t::retry), b = add('b');
  edge(GRAPH_START, a);
  edge(GRAPH_START, b);
  edge(a, GRAPH_END);
  EXPECT_THROW(graph_->start(), lci::argument_error);
  EXPECT_EQ(log_, "ab") << "the others ran";
  EXPECT_FALSE(graph_->is_complete());
}

TEST_F(graphs, node_function__exception_propagates_after_the_others_ran) {
  const auto a = graph_->add_node([](void*) -> status_t { throw std::runtime_error("mine"); },
                                  nullptr, nullptr);
  const auto b = add('b');
  edge(GRAPH_START, a);
  edge(GRAPH_START, b);
  edge(b, GRAPH_END);
  EXPECT_THROW(graph_->start(), std::runtime_error);
  EXPECT_EQ(log_, "b");
  EXPECT_TRUE(graph_->is_complete()) << "nothing on the way to the end depends on the broken node";
}

TEST_F(graphs, destructor__calls_every_free_function_once) {
  static int freed;
  freed = 0;
  int value;
  for (int i = 0; i < 3; ++i) graph_->add_node(nullptr, &value, [](void*) { ++freed; });
  free_live(graph_, "graph");
  graph_ = nullptr;
  EXPECT_EQ(freed, 3);
}

TEST(graph, with_comp__frees_itself_and_then_signals_once) {
  static int freed;
  freed = 0;
  lci::comp::queue queue{comp_attr_t()};
  comp_attr_t attr;
  int context;
  attr.user_context = &context;
  graph* g = make_live<graph>(attr, comp_t(&queue));
  const auto a = g->add_node([](void*) -> status_t { return errorcode_t::posted; }, nullptr,
                             [](void*) { ++freed; });
  g->add_edge(GRAPH_START, a, nullptr);
  g->add_edge(a, GRAPH_END, nullptr);
  g->start();
  EXPECT_TRUE(queue.pop().is_retry());
  EXPECT_EQ(freed, 0);
  g->complete(a, errorcode_t::done);
  EXPECT_EQ(freed, 1);
  const status_t s = queue.pop();
  EXPECT_TRUE(s.is_done());
  EXPECT_EQ(s.user_context, &context);
  EXPECT_TRUE(queue.pop().is_retry());
  EXPECT_THROW(lci::comp::as<graph>(comp_t(g), "graph_test"), lci::argument_error);
}

TEST(graph, with_comp__may_end_inside_start) {
  lci::comp::counter counter{comp_attr_t()};
  graph* g = make_live<graph>(comp_attr_t(), comp_t(&counter));
  g->add_edge(GRAPH_START, GRAPH_END, nullptr);
  g->start();
  EXPECT_EQ(counter.get(), 1);
}

namespace {

// Nodes of the stress test: each runs after all it depends on, and half of them are completed by
// another thread.
struct task {
  std::vector<task*> needs;
  std::atomic<int> runs{0};
  bool is_posted = false;
  graph_node_t node = nullptr;
};
struct pool {
  lci::comp::queue posted{comp_attr_t()};  // user_context: node that somebody must complete
  std::atomic<int> errors{0};
};
pool* the_pool;
int the_round;

status_t run_task(void* value) {
  auto* t = static_cast<task*>(value);
  if (t->runs.fetch_add(1) != the_round) ++the_pool->errors;
  for (task* need : t->needs)
    if (need->runs.load() != the_round + 1) ++the_pool->errors;
  if (!t->is_posted) return errorcode_t::done;
  status_t s = errorcode_t::done;
  s.user_context = t->node;
  the_pool->posted.push(s);
  return errorcode_t::posted;
}

}  // namespace

// Random graphs, completed by several threads, restarted several times.
TEST(graph, stress__dependencies_hold_whoever_completes_the_nodes) {
  auto random = lci::test::seeded(3);
  for (int trial = 0; trial < 20; ++trial) {
    pool p;
    the_pool = &p;
    graph* g = make_live<graph>(comp_attr_t(), comp_t());
    std::vector<std::unique_ptr<task>> tasks;
    for (std::size_t i = 0; i < 60; ++i) {
      auto t = std::make_unique<task>();
      t->is_posted = random() % 2 == 0;
      t->node = g->add_node(&run_task, t.get(), nullptr);
      for (std::size_t k = 0; k < i && t->needs.size() < 4; ++k)
        if (random() % 8 == 0) {
          t->needs.push_back(tasks[i - 1 - k].get());
          g->add_edge(tasks[i - 1 - k]->node, t->node, nullptr);
        }
      if (t->needs.empty()) g->add_edge(GRAPH_START, t->node, nullptr);
      g->add_edge(t->node, GRAPH_END, nullptr);
      tasks.push_back(std::move(t));
    }
    for (the_round = 0; the_round < 5; ++the_round) {
      std::vector<std::thread> threads;
      g->start();
      for (int t = 0; t < 3; ++t)
        threads.emplace_back([&] {
          while (!g->is_complete()) {
            const status_t s = p.posted.pop();
            if (s.is_done())
              lci::comp::signal(g, s);
            else
              std::this_thread::yield();
          }
        });
      for (auto& t : threads) t.join();
      ASSERT_EQ(p.errors, 0);
      for (auto& t : tasks) ASSERT_EQ(t->runs, the_round + 1);
    }
    free_live(g, "graph");
  }
}

// Of what nobody refused to free, as after a loss.
TEST_F(graphs, complete__object_for_the_end_was_freed__is_an_error_of_the_graph) {
  lci::comp::counter* const counter = make_live<lci::comp::counter>(comp_attr_t());
  graph* const with_end = make_live<graph>(comp_attr_t(), comp_t(counter));
  const auto node =
      with_end->add_node([](void*) { return status_t(errorcode_t::posted); }, nullptr, nullptr);
  with_end->add_edge(GRAPH_START, node, nullptr);
  with_end->add_edge(node, GRAPH_END, nullptr);
  with_end->start();
  EXPECT_STREQ(lci::comp::held::find(*counter).by, "graph");
  free_live(counter, "comp");
  EXPECT_TRUE(lci::test::throws_with<lci::argument_error>(
      [&] { with_end->complete(node, errorcode_t::done); }, {"graph", "freed"}));
  // And at its start, when it is known.
  graph* const another = make_live<graph>(comp_attr_t(), comp_t(counter));
  EXPECT_TRUE(lci::test::throws_with<lci::argument_error>([&] { another->start(); },
                                                          {"graph_start", "freed"}));
  free_live(another, "graph");
}

// A round that can never be over holds nothing.
TEST_F(graphs, start__a_function_throws__the_object_for_the_end_is_let_go) {
  lci::comp::counter* const counter = make_live<lci::comp::counter>(comp_attr_t());
  graph* const with_end = make_live<graph>(comp_attr_t(), comp_t(counter));
  const auto node = with_end->add_node(
      [](void*) -> status_t { throw std::runtime_error("of the program"); }, nullptr, nullptr);
  with_end->add_edge(GRAPH_START, node, nullptr);
  with_end->add_edge(node, GRAPH_END, nullptr);
  EXPECT_THROW(with_end->start(), std::runtime_error);
  EXPECT_EQ(lci::comp::held::find(*counter).by, nullptr);
  free_live(with_end, "graph");
  free_live(counter, "comp");
}
