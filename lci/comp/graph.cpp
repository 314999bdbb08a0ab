// Walking a completion graph.
#include "lci/comp/graph.hpp"

#include <exception>
#include <string>

#include "lci/comp/signal.hpp"
#include "lci/errors.hpp"

namespace lci::comp {

// One thread's work inside the graph: the nodes that it made ready and has not run yet, and the
// first exception thrown by user code.
class graph::walk {
 public:
  explicit walk(graph& g) : graph_(g) {}

  // An edge fires.
  void fire(const graph_node::edge& e, const status_t& status, void* from_value) {
    if (e.fn != nullptr) {
      guarded([&] { e.fn(status, from_value, e.to != nullptr ? e.to->value : nullptr); });
    }
    // edge graph.fired, both sides: what was done along each incoming edge is visible to the thread
    // that takes the last one.
    if (e.to == nullptr) {
      if (graph_.missing_at_end_.fetch_sub(1, std::memory_order_acq_rel) == 1) end();
    } else if (e.to->missing.fetch_sub(1, std::memory_order_acq_rel) == 1) {
      e.to->next_ready = nullptr;
      *last_ = e.to;
      last_ = &e.to->next_ready;
    }
  }

  void fire_all(const std::vector<graph_node::edge>& edges, const status_t& status, void* value) {
    for (const graph_node::edge& e : edges) fire(e, status, value);
  }

  // Runs all nodes that are ready, including those that become so meanwhile.
  void run_ready() {
    while (ready_ != nullptr) {
      graph_node* const node = ready_;
      ready_ = node->next_ready;
      if (ready_ == nullptr) last_ = &ready_;
      // The round may never end now, so its object is released to the program.
      if (!guarded([&] { run(*node); })) graph_.guard_.let_go();
    }
  }

  // The walk is over, and the graph may no longer exist.
  void rethrow() const {
    if (error_) std::rethrow_exception(error_);
  }

 private:
  // User code may throw. The rest of the walk goes on, since no other thread would do it.
  template <class Fn>
  bool guarded(Fn&& fn) {
    try {
      fn();
      return true;
    } catch (...) {
      if (!error_) error_ = std::current_exception();
      return false;
    }
  }

  void run(graph_node& node) {
    // edge graph.running, writer: before the function, which may post an operation that another
    // thread completes at once.
    node.is_running.store(true, std::memory_order_release);
    const status_t status = node.fn != nullptr ? node.fn(node.value) : status_t(errorcode_t::done);
    if (status.is_posted()) return;
    if (!status.is_done())
      throw argument_error("graph: the function of a node answered error code " +
                           std::to_string(static_cast<int>(status.error.errorcode)) +
                           "; expected done or posted, and never retry");
    // edge graph.running, reader; of two completions one gets true.
    if (!node.is_running.exchange(false, std::memory_order_acq_rel))
      throw argument_error(
          "graph: the function of a node answered done after the node was completed");
    fire_all(node.out, status, node.value);
  }

  // Relaxed: leave() orders it.
  void end() { graph_.walkers_and_phase_.fetch_add(ENDED - RUNNING, std::memory_order_relaxed); }

  graph& graph_;
  graph_node* ready_ = nullptr;
  graph_node** last_ = &ready_;
  std::exception_ptr error_;
};

graph::graph(const comp_attr_t& given, comp_t when_done) : of_kind(given), when_done_(when_done) {}

graph::~graph() {
  for (graph_node* node : nodes_) {
    if (node->free_cb != nullptr) node->free_cb(node->value);
    base::free_live(node, "node");
  }
}

void graph::must_not_run(const char* who) const {
  // edge graph.complete, reader.
  const std::uint32_t now = walkers_and_phase_.load(std::memory_order_acquire);
  if (now != 0 && now != COMPLETE)
    throw argument_error(std::string(who) +
                         ": argument comp is a graph that has been started and is not complete");
}

graph_node* graph::own(graph_node_t node, const char* who) const {
  auto* const known = base::check_live(static_cast<graph_node*>(node), "node");
  if (known->owner != this)
    throw argument_error(std::string(who) + ": argument node belongs to another graph");
  return known;
}

graph_node* graph::add_node(graph_node_run_cb_t fn, void* value, graph_node_free_cb_t free_cb) {
  must_not_run("graph_add_node");
  graph_node* const node = base::make_live<graph_node>();
  try {
    nodes_.push_back(node);
  } catch (...) {
    base::free_live(node, "node");
    throw;
  }
  node->owner = this;
  node->fn = fn;
  node->value = value;
  node->free_cb = free_cb;
  return node;
}

void graph::add_edge(graph_node_t from, graph_node_t to, graph_edge_run_cb_t fn) {
  must_not_run("graph_add_edge");
  if (from == GRAPH_END)
    throw argument_error(
        "graph_add_edge: argument src is GRAPH_END; expected GRAPH_START or a node");
  if (to == GRAPH_START)
    throw argument_error(
        "graph_add_edge: argument dst is GRAPH_START; expected GRAPH_END or a node");
  if (from == to) throw argument_error("graph_add_edge: arguments src and dst are the same node");
  graph_node* const source = from == GRAPH_START ? nullptr : own(from, "graph_add_edge");
  graph_node* const target = to == GRAPH_END ? nullptr : own(to, "graph_add_edge");
  (source != nullptr ? source->out : first_).push_back({target, fn});
  ++(target != nullptr ? target->in_edges : in_edges_of_end_);
}

void graph::start() {
  must_not_run("graph_start");
  if (in_edges_of_end_ == 0 && !nodes_.empty())
    throw argument_error("graph_start: no edge leads to GRAPH_END; expected at least one");
  if (!when_done_.is_empty())
    guard_.hold(any(when_done_, "graph_start: the object for its end"), "graph", nullptr);
  // Relaxed: other threads reach these through an operation that is posted below, or through
  // graph.fired.
  for (graph_node* node : nodes_) {
    node->missing.store(node->in_edges, std::memory_order_relaxed);
    node->is_running.store(false, std::memory_order_relaxed);
  }
  missing_at_end_.store(in_edges_of_end_, std::memory_order_relaxed);
  // Without anything between start and end the round is over before it begins.
  walkers_and_phase_.store((in_edges_of_end_ == 0 ? ENDED : RUNNING) + 1,
                           std::memory_order_relaxed);
  walk inside(*this);
  inside.fire_all(first_, errorcode_t::done, nullptr);
  inside.run_ready();
  leave();
  inside.rethrow();
}

void graph::complete(graph_node_t handle, const status_t& status) {
  graph_node* const node = own(handle, "graph signal");
  // edge graph.running, reader; of two signals one gets true.
  if (!node->is_running.exchange(false, std::memory_order_acq_rel))
    throw argument_error(
        "graph signal: the node is not running; it was completed before, or has not started");
  // Relaxed: the round cannot end before this node's edges have fired, so no thread checks the
  // count yet.
  walkers_and_phase_.fetch_add(1, std::memory_order_relaxed);
  walk inside(*this);
  inside.fire_all(node->out, status, node->value);
  inside.run_ready();
  leave();
  inside.rethrow();
}

// One thread leaves. The last one of an ended round makes it complete; no thread touches the graph
// after that.
void graph::leave() {
  // edge graph.left, both sides: all that the walkers did is visible to the last of them.
  std::uint32_t now = walkers_and_phase_.fetch_sub(1, std::memory_order_acq_rel) - 1;
  if (now != ENDED) return;
  const comp_t then = when_done_;
  const status_t status(attr.user_context);
  // edge graph.complete, writer. The exchange fails when a node without a path to GRAPH_END was
  // completed at this moment: that thread is then the last one.
  if (!walkers_and_phase_.compare_exchange_strong(now, COMPLETE, std::memory_order_acq_rel,
                                                  std::memory_order_relaxed))
    return;
  if (then.is_empty()) return;
  base::free_live(this, "graph");
  comp::signal(&any(then, "a graph that is complete signals"), status);
}

}  // namespace lci::comp
