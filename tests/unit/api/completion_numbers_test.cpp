// What becomes of an object's numbers for peers when free_comp refuses it.
#include <gtest/gtest.h>

#include "lci.hpp"
#include "lci/runtime/runtime.hpp"

namespace {

lci::status_t answer_posted(void*) { return lci::errorcode_t::posted; }

}  // namespace

// Peers may go on to signal it.
TEST(free_comp_refused, a_graph_that_runs__keeps_its_numbers) {
  lci::g_runtime_init();
  lci::comp_t graph = lci::alloc_graph();
  const auto node = lci::graph_add_node(graph, &answer_posted);
  lci::graph_add_edge(graph, lci::GRAPH_START, node);
  lci::graph_add_edge(graph, node, lci::GRAPH_END);
  const lci::rcomp_t number = lci::register_rcomp(graph);
  const auto& numbers = lci::get_g_runtime().p_impl->core.rcomps;
  lci::graph_start(graph);
  EXPECT_THROW(lci::free_comp(&graph), lci::argument_error);
  EXPECT_FALSE(graph.is_empty());
  EXPECT_TRUE(numbers.has(*graph.p_impl));
  EXPECT_EQ(numbers.find(number).comp, graph.p_impl);
  lci::graph_node_mark_complete(node);
  lci::free_comp(&graph);
  EXPECT_NE(numbers.find(number).comp, nullptr) << "it names what was freed";
  lci::deregister_rcomp(number);
  lci::g_runtime_fina();
}
