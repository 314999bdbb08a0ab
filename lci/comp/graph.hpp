// A completion graph: functions and operations that start as soon as everything that they depend on
// is complete.
//
// A round begins with start() and ends when all edges to GRAPH_END have fired. Nodes run in the
// thread that completed their last dependency, one after the other, not nested, so a chain of any
// length needs no stack. A node completes by its function's return value, or later by complete(),
// called from any thread, for example as the target of an operation whose user context is the node.
//
// Threads: building and start() single; complete() and is_complete() shared.
//
// Always true: an object is in one round at most; walkers_and_phase_ counts the threads inside, and
// the round counts as complete only when the last of them has left, so that a thread that sees it
// complete may start, change or free the graph.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "lci/comp/free_guard.hpp"
#include "lci/comp/kind.hpp"
#include "lci/graph.hpp"

namespace lci::comp {

class graph;

// What a graph_node_t points to.
struct graph_node final : base::live_object<graph_node> {
  struct edge {
    graph_node* to;  // null: GRAPH_END
    graph_edge_run_cb_t fn;
  };

  graph* owner = nullptr;
  graph_node_run_cb_t fn = nullptr;
  void* value = nullptr;
  graph_node_free_cb_t free_cb = nullptr;
  std::vector<edge> out;
  int in_edges = 0;
  std::atomic<int> missing{0};          // edges that have not fired in this round
  std::atomic<bool> is_running{false};  // from before its function until it is complete
  graph_node* next_ready = nullptr;     // list of the thread that made it ready
};

class graph final : public of_kind<attr_comp_type_t::graph>, public base::live_object<graph> {
 public:
  using tombstone = freed;
  using orphan = forked;
  static constexpr std::size_t QUARANTINE = COMP_QUARANTINE;

  // `when_done` may be empty; otherwise the graph frees itself at the end of its round and then
  // signals that object.
  graph(const comp_attr_t& given, comp_t when_done);
  // Calls the free functions of all nodes.
  ~graph() override;

  // Throws argument_error while a round is on.
  void must_not_run(const char* who) const;
  // Building. Each throws argument_error while a round is on, and for nodes of another graph.
  graph_node* add_node(graph_node_run_cb_t fn, void* value, graph_node_free_cb_t free_cb);
  void add_edge(graph_node_t from, graph_node_t to, graph_edge_run_cb_t fn);

  // Begins a round. Throws argument_error when one is on, when there are nodes and no edge leads to
  // GRAPH_END, or when the object for its end was freed. Also throws what functions of nodes and
  // edges throw, after the others have run: the round cannot complete then. The graph may no longer
  // exist when this returns.
  void start();
  // True once the round is complete, until the next start().
  bool is_complete() const noexcept {
    // edge graph.complete, reader.
    return (walkers_and_phase_.load(std::memory_order_acquire) & COMPLETE) != 0;
  }
  // Completes a node whose function returned posted, and runs what becomes ready. Throws like
  // start(), and argument_error for a node that is not running. The graph may no longer exist when
  // this returns.
  void complete(graph_node_t node, const status_t& status);

  void signal(status_t status) override { complete(status.user_context, status); }

 private:
  class walk;

  // walkers_and_phase_: the number of threads inside in the low bits, and one of these.
  static constexpr std::uint32_t ENDED = 1u << 30;     // all edges to GRAPH_END have fired
  static constexpr std::uint32_t COMPLETE = 1u << 31;  // and no thread is inside any more
  static constexpr std::uint32_t RUNNING = 1u << 29;   // started and not ended

  graph_node* own(graph_node_t node, const char* who) const;
  void leave();

  const comp_t when_done_;
  free_guard guard_;  // of when_done_, while a round is on
  std::vector<graph_node*> nodes_;
  std::vector<graph_node::edge> first_;  // edges from GRAPH_START
  int in_edges_of_end_ = 0;
  std::atomic<int> missing_at_end_{0};
  std::atomic<std::uint32_t> walkers_and_phase_{0};
};

}  // namespace lci::comp
