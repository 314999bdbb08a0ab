// Walking a completion graph.
#include "lci/comp/graph.hpp"

#include <algorithm>
#include <cstdio>
#include <exception>
#include <string>
#include <unordered_map>
#include <utility>

#include "lci/base/race_point.hpp"
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
      if (!run(*node)) graph_.guard_.let_go();
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

  // Of a node whose function fails nothing is to come: false, and it runs no more.
  bool run(graph_node& node) {
    // edge graph.running, writer: before the function, which may post an operation that another
    // thread completes at once.
    node.is_running.store(true, std::memory_order_release);
    status_t status = errorcode_t::done;
    const bool is_good = guarded([&] {
      if (node.fn != nullptr) status = node.fn(node.value);
      if (!status.is_done() && !status.is_posted())
        throw argument_error("graph: the function of a node returned error code " +
                             std::to_string(static_cast<int>(status.error.errorcode)) +
                             "; expected done or posted, and never retry");
    });
    if (is_good && status.is_posted()) {
      graph_.add_posted();
      return true;
    }
    // edge graph.running, reader; of two completions one gets true.
    if (node.is_running.exchange(false, std::memory_order_acq_rel)) {
      if (is_good) fire_all(node.out, status, node.value);
      return is_good;
    }
    graph_.add_posted();  // complete() has counted it as such
    if (!is_good) return false;
    return guarded([] {
      throw argument_error(
          "graph: the function of a node returned done after the node was completed");
    });
  }

  // Relaxed: leave() orders it.
  void end() { graph_.state_.fetch_add(ENDED - RUNNING, std::memory_order_relaxed); }

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

std::uint64_t graph::must_not_run(const char* who) const {
  // edge graph.complete, reader.
  const std::uint64_t now = state_.load(std::memory_order_acquire);
  // No thread is inside and no node is posted: a function has failed, and the round never ends.
  if (now == RUNNING) return now;
  if ((now & (RUNNING | ENDED)) != 0)
    throw argument_error(std::string(who) +
                         ": argument comp is a graph that has been started and is not complete");
  if ((now & ~COMPLETE) != 0)
    throw argument_error(std::string(who) +
                         ": argument comp is a graph of which a node of the last round has not "
                         "completed");
  return now;
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
  is_checked_ = false;
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
  is_checked_ = false;
}

// A round without its functions: what is left with missing edges never runs. Relaxed: no round is
// on.
void graph::check_end_is_reached() {
  graph_node* ready = nullptr;
  int missing_at_end = in_edges_of_end_;
  const auto fire = [&](const std::vector<graph_node::edge>& edges) {
    for (const graph_node::edge& e : edges) {
      if (e.to == nullptr) {
        --missing_at_end;
      } else if (e.to->missing.fetch_sub(1, std::memory_order_relaxed) == 1) {
        e.to->next_ready = ready;
        ready = e.to;
      }
    }
  };
  for (graph_node* node : nodes_) node->missing.store(node->in_edges, std::memory_order_relaxed);
  fire(first_);
  while (ready != nullptr) fire(std::exchange(ready, ready->next_ready)->out);
  if (missing_at_end != 0) throw_never_runs();
  is_checked_ = true;
}

// After the above: back from the end, along nodes that do not run, to the first one, or into a
// circle.
void graph::throw_never_runs() const {
  const auto runs = [](const graph_node* node) {
    return node->in_edges != 0 && node->missing.load(std::memory_order_relaxed) == 0;
  };
  std::unordered_map<const graph_node*, const graph_node*> before;  // null: of GRAPH_END
  for (const graph_node* node : nodes_)
    if (!runs(node))
      for (const graph_node::edge& e : node->out) before[e.to] = node;
  const graph_node* found = before.at(nullptr);
  for (std::size_t i = 0; i < nodes_.size() && found->in_edges != 0; ++i) found = before.at(found);
  char address[32];
  std::snprintf(address, sizeof address, "%p", static_cast<const void*>(found));
  throw argument_error(
      std::string("graph_start: GRAPH_END is never reached, since node ") + address + ", number " +
      std::to_string(std::find(nodes_.begin(), nodes_.end(), found) - nodes_.begin()) +
      " in the order of graph_add_node from 0, never runs: " +
      (found->in_edges == 0 ? "no edge leads to it; expected one from GRAPH_START or another node"
                            : "it waits for itself, along a circle of edges"));
}

void graph::start() {
  const std::uint64_t before = must_not_run("graph_start");
  if (in_edges_of_end_ == 0 && !nodes_.empty())
    throw argument_error("graph_start: no edge leads to GRAPH_END; expected at least one");
  if (!is_checked_) check_end_is_reached();
  if (!when_done_.is_empty())
    guard_.hold(any(when_done_, "graph_start: the object for its end"), "graph", nullptr);
  // Relaxed: other threads reach these through an operation that is posted below, or through
  // graph.fired.
  for (graph_node* node : nodes_) node->missing.store(node->in_edges, std::memory_order_relaxed);
  missing_at_end_.store(in_edges_of_end_, std::memory_order_relaxed);
  // Without anything between start and end the round is over before it begins. Added, since a
  // thread may be inside that completes a node in error and is about to be refused.
  state_.fetch_add((in_edges_of_end_ == 0 ? ENDED : RUNNING) + 1 - before,
                   std::memory_order_relaxed);
  walk inside(*this);
  inside.fire_all(first_, errorcode_t::done, nullptr);
  inside.run_ready();
  leave(0);
  inside.rethrow();
}

void graph::complete(graph_node_t handle, const status_t& status) {
  graph_node* const node = own(handle, "graph signal");
  // Before the node is taken: from then on start() has to find this thread inside. Relaxed: until
  // this thread leaves, it finds the node among those that are posted.
  state_.fetch_add(1, std::memory_order_relaxed);
  // edge graph.running, reader; of two signals one gets true.
  if (!node->is_running.exchange(false, std::memory_order_acq_rel)) {
    leave(0);
    throw argument_error(
        "graph signal: the node is not running; it was completed before, or has not started");
  }
  LCI_RACE_POINT("graph.complete.taken");
  walk inside(*this);
  inside.fire_all(node->out, status, node->value);
  inside.run_ready();
  leave(POSTED);
  inside.rethrow();
}

// One thread leaves, with the node that it completed. The last one of an ended round makes it
// complete; no thread touches the graph after that.
void graph::leave(std::uint64_t completed) {
  // edge graph.left, both sides: all that the walkers did is visible to the last of them.
  std::uint64_t now = state_.fetch_sub(completed + 1, std::memory_order_acq_rel) - completed - 1;
  if (now % POSTED != ENDED) return;
  const comp_t then = when_done_;
  const status_t status(attr.user_context);
  // edge graph.complete, writer. The exchange fails when a node without a path to GRAPH_END was
  // completed at this moment: that thread is then the last one.
  if (!state_.compare_exchange_strong(now, now - ENDED + COMPLETE, std::memory_order_acq_rel,
                                      std::memory_order_relaxed))
    return;
  if (then.is_empty()) return;
  base::free_live(this, "graph");
  comp::signal(&any(then, "a graph that is complete signals"), status);
}

}  // namespace lci::comp
