// Operations on completion graphs.
#include "lci/graph.hpp"

#include "lci/api/resolve.hpp"
#include "lci/comp/graph.hpp"
#include "lci/errors.hpp"

namespace lci::detail {

graph_node_t graph_add_node(const graph_add_node_args& args) {
  api::check_given(args.runtime);
  return comp::as<comp::graph>(args.comp, "graph_add_node")
      .add_node(args.fn, args.value, args.free_cb);
}

void graph_add_edge(const graph_add_edge_args& args) {
  api::check_given(args.runtime);
  comp::as<comp::graph>(args.comp, "graph_add_edge").add_edge(args.src, args.dst, args.fn);
}

void graph_node_mark_complete(const graph_node_mark_complete_args& args) {
  api::check_given(args.runtime);
  auto* const node = base::check_live(static_cast<comp::graph_node*>(args.node), "node");
  node->owner->complete(node, args.status);
}

void graph_start(const comp_args& args) {
  api::check_given(args.runtime);
  comp::as<comp::graph>(args.comp, "graph_start").start();
}

status_t graph_test(const comp_args& args) {
  api::check_given(args.runtime);
  const comp::graph& graph = comp::as<comp::graph>(args.comp, "graph_test");
  return graph.is_complete() ? status_t(graph.attr.user_context) : status_t(errorcode_t::retry);
}

}  // namespace lci::detail
