// Rounds after the first: what the last one has left behind. Nodes without a way to GRAPH_END may
// still be posted when it is complete. And rounds that would never end.
#include <gtest/gtest.h>

#include <cstdio>
#include <stdexcept>
#include <string>

#include "lci/comp/graph.hpp"
#include "lci/errors.hpp"
#include "tests/support/must_fire.hpp"
#include "tests/support/race_hook.hpp"

namespace lci::comp {
namespace {

// Two nodes that write into a log, of which the first is posted and the second follows it, beside
// a round that is complete at once.
class graph_restarts : public testing::Test {
 protected:
  graph_restarts() {
    graph_->add_edge(GRAPH_START, first_, nullptr);
    graph_->add_edge(first_, second_, nullptr);
    graph_->add_edge(GRAPH_START, GRAPH_END, nullptr);
  }
  ~graph_restarts() override { base::free_live(graph_, "graph"); }

  std::string log_;
  graph* graph_ = base::make_live<graph>(comp_attr_t(), comp_t());
  graph_node_t first_ = graph_->add_node(
      [](void* log) {
        *static_cast<std::string*>(log) += 'a';
        return status_t(errorcode_t::posted);
      },
      &log_, nullptr);
  graph_node_t second_ = graph_->add_node(
      [](void* log) {
        *static_cast<std::string*>(log) += 'b';
        return status_t(errorcode_t::done);
      },
      &log_, nullptr);
};

// Its completion would be taken for that of the next round.
TEST_F(graph_restarts, a_node_is_still_posted__is_refused) {
  for (int round = 0; round < 2; ++round) {
    log_.clear();
    graph_->start();
    EXPECT_TRUE(graph_->is_complete());
    EXPECT_TRUE(test::throws_with<argument_error>(
        [&] { graph_->start(); }, {"graph_start", "a node of the last round has not completed"}));
    EXPECT_THROW(graph_->must_not_run("free_comp"), argument_error);
    EXPECT_THROW(graph_->add_edge(second_, GRAPH_END, nullptr), argument_error);
    EXPECT_EQ(log_, "a");
    graph_->complete(first_, errorcode_t::done);
    EXPECT_THROW(graph_->complete(first_, errorcode_t::done), argument_error);
    EXPECT_EQ(log_, "ab");
  }
}

// The thread that completes the node has not fired its edges yet.
TEST_F(graph_restarts, a_node_is_being_completed__is_refused) {
  if (!test::has_race_points) GTEST_SKIP() << test::RACE_POINTS_MISSING;
  graph_->start();
  {
    test::race_hook hook("graph.complete.taken",
                         [&] { EXPECT_THROW(graph_->start(), argument_error); });
    graph_->complete(first_, errorcode_t::done);
    EXPECT_EQ(hook.hits(), 1);
  }
  EXPECT_EQ(log_, "ab");
  EXPECT_TRUE(graph_->is_complete());
  graph_->start();
  EXPECT_EQ(log_, "aba");
  EXPECT_TRUE(graph_->is_complete());
  graph_->complete(first_, errorcode_t::done);
}

// A function that completes its own node before it answers.
struct early_node {
  graph* of;
  errorcode_t answer;
  graph_node_t node = nullptr;
};
status_t complete_early(void* value) {
  const auto* const early = static_cast<early_node*>(value);
  early->of->complete(early->node, errorcode_t::done);
  return early->answer;
}

TEST(graph_restart, nodes_completed_early_or_failed__runs_again) {
  graph* const it = base::make_live<graph>(comp_attr_t(), comp_t());
  early_node posted{it, errorcode_t::posted}, done{it, errorcode_t::done};
  posted.node = it->add_node(&complete_early, &posted, nullptr);
  done.node = it->add_node(&complete_early, &done, nullptr);
  const graph_node_t thrower =
      it->add_node([](void*) -> status_t { throw std::runtime_error("mine"); }, nullptr, nullptr);
  const graph_node_t retried =
      it->add_node([](void*) { return status_t(errorcode_t::retry); }, nullptr, nullptr);
  for (const graph_node_t node : {posted.node, done.node, thrower, retried})
    it->add_edge(GRAPH_START, node, nullptr);
  it->add_edge(GRAPH_START, GRAPH_END, nullptr);
  for (int round = 0; round < 3; ++round) {
    EXPECT_TRUE(test::throws_with<argument_error>([&] { it->start(); },
                                                  {"returned done after the node was completed"}));
    EXPECT_TRUE(it->is_complete());
    EXPECT_NO_THROW(it->must_not_run("free_comp"));
    EXPECT_THROW(it->complete(thrower, errorcode_t::done), argument_error);
  }
  base::free_live(it, "graph");
}

// Nothing leads to the end of that round any more.
TEST(graph_restart, a_function_has_failed__over_when_nothing_is_under_way) {
  graph* const g = base::make_live<graph>(comp_attr_t(), comp_t());
  int calls = 0;
  const graph_node_t fails_once = g->add_node(
      [](void* n) {
        return status_t(++*static_cast<int*>(n) == 1 ? errorcode_t::retry : errorcode_t::done);
      },
      &calls, nullptr);
  const graph_node_t posted =
      g->add_node([](void*) { return status_t(errorcode_t::posted); }, nullptr, nullptr);
  for (const graph_node_t node : {fails_once, posted}) {
    g->add_edge(GRAPH_START, node, nullptr);
    g->add_edge(node, GRAPH_END, nullptr);
  }
  EXPECT_THROW(g->start(), argument_error);
  EXPECT_THROW(g->must_not_run("free_comp"), argument_error);
  EXPECT_THROW(g->start(), argument_error);
  g->complete(posted, errorcode_t::done);
  EXPECT_NO_THROW(g->must_not_run("free_comp"));
  g->start();
  EXPECT_FALSE(g->is_complete());
  g->complete(posted, errorcode_t::done);
  EXPECT_TRUE(g->is_complete());
  base::free_live(g, "graph");
}

// Rounds that would never end, of a graph that was started before as well. What does not lead to
// the end may be left out.
TEST(graph_end, never_reached__is_refused_and_names_the_node) {
  graph* const tested = base::make_live<graph>(comp_attr_t(), comp_t());
  std::string log;
  const auto add = [&] {
    return tested->add_node(
        [](void* to) {
          *static_cast<std::string*>(to) += '.';
          return status_t(errorcode_t::done);
        },
        &log, nullptr);
  };
  const auto edge = [&](graph_node_t from, graph_node_t to) {
    tested->add_edge(from, to, nullptr);
  };
  const auto refused = [&](graph_node_t node, const char* number, const char* why) {
    char address[32];
    std::snprintf(address, sizeof address, "%p", node);
    log.clear();
    EXPECT_TRUE(test::throws_with<argument_error>([&] { tested->start(); },
                                                  {"graph_start", address, number, why}));
    EXPECT_EQ(log, "");
  };
  const graph_node_t a = add(), b = add(), aside = add();
  edge(GRAPH_START, b);
  edge(a, b);
  edge(b, GRAPH_END);
  refused(a, "number 0 ", "no edge leads to it");
  EXPECT_FALSE(tested->is_complete());
  edge(GRAPH_START, a);
  tested->start();
  EXPECT_EQ(log, "..");
  EXPECT_TRUE(tested->is_complete());
  edge(aside, b);
  refused(aside, "number 2 ", "no edge leads to it");
  edge(GRAPH_START, aside);
  tested->start();
  EXPECT_TRUE(tested->is_complete());
  const graph_node_t c = add(), d = add();
  edge(c, d);
  edge(d, c);
  tested->start();
  EXPECT_TRUE(tested->is_complete());
  edge(d, b);
  refused(d, "number 4 ", "waits for itself");
  base::free_live(tested, "graph");
}

}  // namespace
}  // namespace lci::comp
