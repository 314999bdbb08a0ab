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
// Always true: an object is in one round at most; state_ counts the threads inside, and the round
// counts as complete only when the last of them has left. A node without a path to GRAPH_END may
// then still be posted: state_ counts these as well, and the graph is not started, changed or freed
// until they are complete and the threads that completed them have left.
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
  std::atomic<bool> is_running{false};  // from before its function until it is complete or failed
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

  // Throws argument_error while a round is on, or a node of the last one is still posted. A round
  // that a failed function has cut short is not on once nothing of it is under way. Answers the
  // state that it found.
  std::uint64_t must_not_run(const char* who) const;
  // Building. Each throws like must_not_run(), and argument_error for nodes of another graph.
  graph_node* add_node(graph_node_run_cb_t fn, void* value, graph_node_free_cb_t free_cb);
  void add_edge(graph_node_t from, graph_node_t to, graph_edge_run_cb_t fn);

  // Begins a round. Throws like must_not_run(), and argument_error when there are nodes and no edge
  // leads to GRAPH_END, when one comes from a node that cannot run, or when the object for its end
  // was freed. Also throws what functions of nodes and edges throw, after the others have run: the
  // round cannot complete then, unless no path leads from there to GRAPH_END. The graph may no
  // longer exist when this returns.
  void start();
  // True once the round is complete, until the next start().
  bool is_complete() const noexcept {
    // edge graph.complete, reader.
    return (state_.load(std::memory_order_acquire) & COMPLETE) != 0;
  }
  // Completes a node whose function returned posted, and runs what becomes ready. Throws like
  // start(), and argument_error for a node that is not running. The graph may no longer exist when
  // this returns.
  void complete(graph_node_t node, const status_t& status);

  void signal(status_t status) override { complete(status.user_context, status); }

 private:
  class walk;

  // state_: the number of threads inside in the low bits, one of the phases, and above them the
  // number of posted nodes that are not complete. That one is exact while no thread is inside: a
  // node may be completed before its function answers, so it wraps meanwhile.
  static constexpr std::uint64_t RUNNING = std::uint64_t{1} << 29;   // started and not ended
  static constexpr std::uint64_t ENDED = std::uint64_t{1} << 30;     // all edges to the end fired
  static constexpr std::uint64_t COMPLETE = std::uint64_t{1} << 31;  // and all threads have left
  static constexpr std::uint64_t POSTED = std::uint64_t{1} << 32;    // one node

  graph_node* own(graph_node_t node, const char* who) const;
  // Throws argument_error if the round could never end: an edge to GRAPH_END starts at a node that
  // cannot run.
  void check_end_is_reached();
  [[noreturn]] LCI_COLD void throw_never_runs() const;
  // By a thread inside, which orders it when it leaves: relaxed.
  void add_posted() { state_.fetch_add(POSTED, std::memory_order_relaxed); }
  // `completed`: POSTED by a thread that has completed a node, else 0.
  void leave(std::uint64_t completed);

  const comp_t when_done_;
  free_guard guard_;  // of when_done_, while a round is on
  std::vector<graph_node*> nodes_;
  std::vector<graph_node::edge> first_;  // edges from GRAPH_START
  int in_edges_of_end_ = 0;
  bool is_checked_ = false;  // as it is now, every round ends
  std::atomic<int> missing_at_end_{0};
  std::atomic<std::uint64_t> state_{0};
};

}  // namespace lci::comp
