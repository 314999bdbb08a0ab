/// @file graph.hpp
/// Completion graphs: operations and functions that start as soon as their dependencies are
/// complete.
///
/// Building a graph: one thread. Starting and testing: one thread at a time. Nodes run in the
/// thread that completes their last dependency.
#ifndef LCI_GRAPH_HPP
#define LCI_GRAPH_HPP

#include <memory>

#include "lci/completion.hpp"

namespace lci {

/// Start of a graph: edges from it fire in graph_start().
const graph_node_t GRAPH_START = reinterpret_cast<graph_node_t>(static_cast<uintptr_t>(1));
/// End of a graph: the graph is complete when all edges to it have fired; at least one is needed.
/// A node from which no edges lead here may still be posted then. It has to complete before the
/// graph is changed, started again or freed, also by itself.
const graph_node_t GRAPH_END = reinterpret_cast<graph_node_t>(static_cast<uintptr_t>(2));
/// Function of a node that completes at once.
const graph_node_run_cb_t GRAPH_NODE_DUMMY_CB = nullptr;

namespace detail {

/// Arguments of graph_add_node.
struct graph_add_node_args {
  comp_t comp;
  graph_node_run_cb_t fn = nullptr;
  void* value = nullptr;
  graph_node_free_cb_t free_cb = nullptr;
  runtime_t runtime;
};
/// Arguments of graph_add_edge.
struct graph_add_edge_args {
  comp_t comp;
  graph_node_t src = nullptr;
  graph_node_t dst = nullptr;
  graph_edge_run_cb_t fn = nullptr;
  runtime_t runtime;
};
/// Arguments of graph_node_mark_complete.
struct graph_node_mark_complete_args {
  graph_node_t node = nullptr;
  status_t status;
  runtime_t runtime;
};

LCI_PUBLIC comp_t alloc_graph(const alloc_comp_args& args);
LCI_PUBLIC graph_node_t graph_add_node(const graph_add_node_args& args);
LCI_PUBLIC void graph_add_edge(const graph_add_edge_args& args);
LCI_PUBLIC void graph_node_mark_complete(const graph_node_mark_complete_args& args);
LCI_PUBLIC void graph_start(const comp_args& args);
LCI_PUBLIC status_t graph_test(const comp_args& args);

}  // namespace detail

/// Creates an empty graph.
/// @return  the graph; free it with free_comp(), unless comp() makes it free itself
class alloc_graph_x : public detail::alloc_comp_operation<alloc_graph_x, &detail::alloc_graph> {
 public:
  /// Sets an object to signal once, with done and the graph's user context, when the graph is
  /// complete. The graph then frees itself and must not be tested or freed. Default: COMP_NULL.
  alloc_graph_x&& comp(comp_t value) {
    args.comp = value;
    return self();
  }
};

/// Adds a node that runs `fn(value)` once all its incoming edges have fired.
/// @return  the node, which belongs to the graph
class graph_add_node_x : public detail::operation<graph_add_node_x, detail::graph_add_node_args,
                                                  graph_node_t, &detail::graph_add_node>,
                         public detail::runtime_option<graph_add_node_x>,
                         public detail::comp_positional<graph_add_node_x> {
 public:
  /// The required arguments.
  /// @param comp  the graph
  /// @param run   see fn()
  graph_add_node_x(comp_t comp, graph_node_run_cb_t run) {
    args.comp = comp;
    args.fn = run;
  }
  /// Sets the function. It returns done (complete now) or posted (completes later), never retry.
  /// Default: none, the constructor takes it.
  graph_add_node_x&& fn(graph_node_run_cb_t function) {
    args.fn = function;
    return self();
  }
  /// Sets the argument of the function. Default: null.
  graph_add_node_x&& value(void* value) {
    args.value = value;
    return self();
  }
  /// Sets the function that frees the value together with the graph. Default: none.
  graph_add_node_x&& free_cb(graph_node_free_cb_t function) {
    args.free_cb = function;
    return self();
  }
};

/// Makes `dst` wait for `src`.
class graph_add_edge_x : public detail::operation<graph_add_edge_x, detail::graph_add_edge_args,
                                                  void, &detail::graph_add_edge>,
                         public detail::runtime_option<graph_add_edge_x>,
                         public detail::comp_positional<graph_add_edge_x> {
 public:
  /// Positional arguments, see the setters of their names.
  graph_add_edge_x(comp_t comp, graph_node_t src, graph_node_t dst) {
    args.comp = comp;
    args.src = src;
    args.dst = dst;
  }
  /// Sets the node to wait for.
  graph_add_edge_x&& src(graph_node_t value) {
    args.src = value;
    return self();
  }
  /// Sets the node that waits.
  graph_add_edge_x&& dst(graph_node_t value) {
    args.dst = value;
    return self();
  }
  /// Sets a function to run, with the status of `src`, each time the edge fires. Default: none.
  graph_add_edge_x&& fn(graph_edge_run_cb_t value) {
    args.fn = value;
    return self();
  }
};

/// Completes a node whose function returned posted.
class graph_node_mark_complete_x
    : public detail::operation<graph_node_mark_complete_x, detail::graph_node_mark_complete_args,
                               void, &detail::graph_node_mark_complete>,
      public detail::runtime_option<graph_node_mark_complete_x> {
 public:
  /// Takes the node.
  explicit graph_node_mark_complete_x(graph_node_t value) { args.node = value; }
  /// Sets the node.
  graph_node_mark_complete_x&& node(graph_node_t value) {
    args.node = value;
    return self();
  }
  /// Sets the status that its outgoing edges see. Default: status_t().
  graph_node_mark_complete_x&& status(status_t value) {
    args.status = value;
    return self();
  }
};

/// Starts a graph; a completed graph can be started again. @throws lci::argument_error  not a
/// graph; it is not complete; a node of its last round is still posted; there are nodes and no edge
/// to GRAPH_END; GRAPH_END is never reached, since a node before it has no incoming edge or waits
/// for itself
class graph_start_x
    : public detail::operation<graph_start_x, detail::comp_args, void, &detail::graph_start>,
      public detail::runtime_option<graph_start_x>,
      public detail::comp_positional<graph_start_x> {
 public:
  /// Takes the graph.
  explicit graph_start_x(comp_t comp) { args.comp = comp; }
};

/// Tests whether a graph is complete.
/// @return  a done status with the graph's user context if all edges to GRAPH_END have fired; else
/// a retry status
class graph_test_x
    : public detail::operation<graph_test_x, detail::comp_args, status_t, &detail::graph_test>,
      public detail::runtime_option<graph_test_x>,
      public detail::comp_positional<graph_test_x> {
 public:
  /// Takes the graph.
  explicit graph_test_x(comp_t comp) { args.comp = comp; }
};

/// alloc_graph_x without options.
inline comp_t alloc_graph() { return alloc_graph_x().call(); }
/// graph_add_node_x without options.
inline graph_node_t graph_add_node(comp_t comp, graph_node_run_cb_t fn) {
  return graph_add_node_x(comp, fn).call();
}
/// graph_add_edge_x without options.
inline void graph_add_edge(comp_t comp, graph_node_t src, graph_node_t dst) {
  graph_add_edge_x(comp, src, dst).call();
}
/// graph_node_mark_complete_x without options.
inline void graph_node_mark_complete(graph_node_t node) { graph_node_mark_complete_x(node).call(); }
/// graph_start_x without options.
inline void graph_start(comp_t comp) { graph_start_x(comp).call(); }
/// graph_test_x without options.
inline status_t graph_test(comp_t comp) { return graph_test_x(comp).call(); }

namespace detail {

/// Runs a stored operation as a graph node. A result that is neither a status nor a code counts as
/// done.
template <class T, class Answer = decltype(std::declval<T&>()())>
struct graph_op_node {
  static status_t run(void* value) {
    (*static_cast<T*>(value))();
    return errorcode_t::done;
  }
};
template <class T>
struct graph_op_node<T, status_t> {
  static status_t run(void* value) { return (*static_cast<T*>(value))(); }
};
template <class T>
struct graph_op_node<T, errorcode_t> {
  static status_t run(void* value) { return (*static_cast<T*>(value))(); }
};
template <class T>
void graph_op_free(void* value) {
  delete static_cast<T*>(value);
}

}  // namespace detail

/// Adds a node that runs a copy of `op`, any functor with a `user_context(void*)` member. The
/// copy's context is set to the node, so an operation posted with the graph as its completion
/// object and `allow_retry(false)` completes the node. A result of type status_t or errorcode_t is
/// used; any other counts as done.
/// @param graph  the graph
/// @param op     the operation to run
/// @return the node
template <class T>
graph_node_t graph_add_node_op(comp_t graph, const T& op) {
  std::unique_ptr<T> copy(new T(op));
  graph_node_t node = graph_add_node_x(graph, &detail::graph_op_node<T>::run)
                          .value(copy.get())
                          .free_cb(&detail::graph_op_free<T>)
                          .call();
  copy->user_context(node);
  copy.release();
  return node;
}

}  // namespace lci

#endif  // LCI_GRAPH_HPP
