// Whatever runs code of the program counts as a handler: notifications of puts, completions of
// operations, functions of graphs, objects of the program's own. And what waits for its turn
// survives its device.
#include <algorithm>

#include "world.hpp"

namespace interface_test {
namespace {

// Counts how deep the one thread of these tests is inside of code that a signal runs.
class depth_counter {
 public:
  depth_counter() { deepest_ = std::max(deepest_, ++inside_); }
  ~depth_counter() { --inside_; }
  depth_counter(const depth_counter&) = delete;
  depth_counter& operator=(const depth_counter&) = delete;
  static void reset() { deepest_ = 0; }
  static void expect_within_limit(bool is_nested_for_sure = true) {
    if (is_nested_for_sure) {
      EXPECT_GT(deepest_, 1) << "nothing was nested";
    }
    EXPECT_LE(deepest_, lci::get_g_runtime().get_attr_max_handler_depth());
  }

 private:
  static int inside_, deepest_;
};
int depth_counter::inside_ = 0, depth_counter::deepest_ = 0;

constexpr int STEPS = 1000;
int steps = 0;

TEST(nested_kinds, notifications_of_puts__may_put_again) {
  static window* memory;
  static lci::rcomp_t rcomp;
  window made(64);
  memory = &made;
  steps = 0;
  depth_counter::reset();
  static const auto put = [] {
    std::uint64_t value = 7;
    const int to = world().next();
    while (lci::post_put_x(to, &value, sizeof value, lci::COMP_NULL_RETRY, 0, memory->rmr(to))
               .remote_comp(rcomp)
               .device(world().device)()
               .is_retry())
      progress();
  };
  owned_comp handler(lci::alloc_handler([](lci::status_t) {
    const depth_counter here;
    if (++steps <= STEPS) put();
    lci::progress_x().device(world().device)();
  }));
  rcomp = lci::register_rcomp(handler);
  barrier();
  constexpr int FLYING = 10;
  for (int i = 0; i < FLYING; ++i) put();
  wait_until([] { return steps == STEPS + FLYING; });
  barrier();
  EXPECT_EQ(steps, STEPS + FLYING);
  // Between ranks it is chance whether the next one is there when a handler looks.
  depth_counter::expect_within_limit(world().n == 1);
  lci::deregister_rcomp(rcomp);
}

// Sends and receives with oneself, whose completions begin the next ones.
class relay : public lci::comp_impl_t {
 public:
  void signal(lci::status_t) override { run(); }
  void run() {
    const depth_counter here;
    if (++steps <= STEPS) begin();
    progress();
    ++returned_;
  }
  void begin() {
    const lci::comp_t self(this);
    lci::post_recv_x(world().rank, &in_, 1, 6, self).device(world().device).allow_done(false)();
    lci::post_send_x(world().rank, &out_, 1, 6, lci::COMP_NULL).device(world().device)();
  }
  int returned() const { return returned_; }

 private:
  char in_ = 0, out_ = 0;
  int returned_ = 0;
};

TEST(nested_kinds, objects_of_the_program__may_make_progress) {
  relay object;
  steps = 0;
  depth_counter::reset();
  for (int i = 0; i < 4; ++i) object.begin();
  wait_until([&] { return object.returned() == STEPS + 4; });
  depth_counter::expect_within_limit();
  barrier();
}

// Each graph has a function that receives and one that starts the next graph, once that is
// complete.
struct link_t {
  lci::comp_t graph;
  lci::graph_node_t received = nullptr;
  char byte = 0;
};
std::vector<link_t> links;
int graphs_ended = 0;

lci::status_t receive_for(void* value) {
  link_t& own = *static_cast<link_t*>(value);
  return lci::post_recv_x(world().rank, &own.byte, 1, 7, own.graph)
      .device(world().device)
      .user_context(own.received)
      .allow_done(false)();
}

void start(link_t& which) {
  lci::graph_start(which.graph);
  lci::post_send_x(world().rank, &which.byte, 1, 7, lci::COMP_NULL).device(world().device)();
}

lci::status_t start_next(void* value) {
  const depth_counter here;
  link_t* const next = static_cast<link_t*>(value) + 1;
  if (next != links.data() + links.size()) start(*next);
  progress();
  ++graphs_ended;
  return lci::errorcode_t::done;
}

TEST(nested_kinds, functions_of_graphs__may_make_progress) {
  links.assign(500, link_t());
  graphs_ended = 0;
  depth_counter::reset();
  for (link_t& one : links) {
    one.graph = lci::alloc_graph();
    one.received = lci::graph_add_node_x(one.graph, receive_for).value(&one)();
    const lci::graph_node_t then = lci::graph_add_node_x(one.graph, start_next).value(&one)();
    lci::graph_add_edge(one.graph, lci::GRAPH_START, one.received);
    lci::graph_add_edge(one.graph, one.received, then);
    lci::graph_add_edge(one.graph, then, lci::GRAPH_END);
  }
  start(links[0]);
  wait_until([] { return graphs_ended == static_cast<int>(links.size()); });
  depth_counter::expect_within_limit();
  for (link_t& one : links) {
    wait_until([&] { return lci::graph_test(one.graph).is_done(); });
    lci::free_comp(&one.graph);
  }
  barrier();
}

// Messages that a device has taken in, for handlers that were too deep then, are handled before it
// is gone; so are those of a peer that nothing more will come from.
TEST(nested_kinds, free_device__lets_those_have_their_turn_that_wait) {
  static lci::device_t extra;
  static lci::rcomp_t inner, outer;
  static int depth, handled;
  depth = handled = 0;
  constexpr int COUNT = 200;
  extra = lci::alloc_device();
  owned_comp counted(lci::alloc_handler_x([](lci::status_t status) {
                       EXPECT_EQ(difference(status.buffer, status.size, 5), "");
                       lci::put_upacket(status.buffer);
                       ++handled;
                     }).zero_copy_am(true)());
  owned_comp nesting(lci::alloc_handler([](lci::status_t status) {
    std::free(status.buffer);
    char byte = 0;
    if (++depth < lci::get_g_runtime().get_attr_max_handler_depth()) {
      const int mine = depth;
      lci::post_am_x(world().rank, &byte, 1, lci::COMP_NULL, outer).device(world().device)();
      wait_until([mine] { return depth > mine; });
      return;
    }
    std::vector<char> out = pattern(3000, 5);
    for (int i = 0; i < COUNT; ++i)
      lci::post_am_x(world().rank, out.data(), i % 2 == 0 ? 16 : 3000, lci::COMP_NULL, inner)
          .device(extra)();
    for (int i = 0; i < 2 * COUNT; ++i) lci::progress_x().device(extra)();
    EXPECT_EQ(handled, 0);
  }));
  inner = lci::register_rcomp(counted);
  outer = lci::register_rcomp(nesting);
  char byte = 0;
  lci::post_am_x(world().rank, &byte, 1, lci::COMP_NULL, outer).device(world().device)();
  wait_until([] { return depth == lci::get_g_runtime().get_attr_max_handler_depth(); });
  EXPECT_EQ(handled, 0) << "the other device had no round of progress since";
  lci::free_device(&extra);
  EXPECT_EQ(handled, COUNT);
  lci::deregister_rcomp(outer);
  lci::deregister_rcomp(inner);
  barrier();
}

// The bytes of the message are not safe yet when its buffer is asked for.
TEST(nested_kinds, allocator__must_not_make_progress) {
  class meddler : public lci::allocator_base_t {
   public:
    void* allocate(std::size_t size) override {
      expect_refused([] { progress(); });
      expect_refused([] { barrier(); });
      expect_refused([] {
        char byte = 0;
        lci::post_recv_x(world().rank, &byte, 1, 77, lci::COMP_NULL).device(world().device)();
      });
      return std::malloc(size);
    }
    void deallocate(void* p) override { std::free(p); }
    int refused() const { return refused_; }

   private:
    void expect_refused(void (*call)()) {
      refused_ +=
          text_thrown<lci::argument_error>(call).find("allocator") != std::string::npos ? 1 : 0;
    }
    int refused_ = 0;
  };
  meddler given;
  inbox box;
  lci::allocator_base_t* const before = lci::get_allocator();
  lci::set_allocator(&given);
  for (const std::size_t size : {std::size_t{8}, std::size_t{100000}}) {
    std::vector<char> out = pattern(size, 1);
    lci::post_am_x(world().rank, out.data(), size, lci::COMP_NULL, box.rcomp())
        .device(world().device)();
    const lci::status_t got = pop(box.cq());
    EXPECT_EQ(difference(got.buffer, size, 1), "");
    given.deallocate(got.buffer);
  }
  EXPECT_EQ(given.refused(), 6);
  EXPECT_NO_THROW(progress()) << "nothing is left of these calls";
  barrier();
  lci::set_allocator(before);
}

}  // namespace
}  // namespace interface_test
