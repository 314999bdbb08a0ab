// Misuse of handles, completion objects and graphs. Each case must be refused with a message that
// says what is wrong.
#include "lci.hpp"

struct complete_object : lci::comp_impl_t {
  void signal(lci::status_t) override {}
};
struct incomplete_object : lci::comp_impl_t {};
struct node_operation {
  void user_context(void*) {}
  void operator()() const {}
};
struct contextless {
  void operator()() const {}
};
struct inert {
  void user_context(void*) {}
};

lci::status_t misuse(lci::device_t device, lci::comp_t graph, void* context) {
  complete_object object;
  lci::comp_t handler = lci::alloc_handler([](lci::status_t) {});
  lci::graph_add_node_op(graph, node_operation());
  lci::free_device(&device);
#ifdef FREE_BY_VALUE
  // case FREE_BY_VALUE expect: (cannot convert|no matching function|no viable conversion)
  lci::free_device(device);
#endif
#ifdef DEREGISTER_POINTER
  // case DEREGISTER_POINTER expect: deleted
  lci::deregister_memory(context);
#endif
#ifdef DEREGISTER_POINTER_X
  // case DEREGISTER_POINTER_X expect: deleted
  lci::deregister_memory_x deregister(context);
#endif
#ifdef DEREGISTER_ADDRESS
  // case DEREGISTER_ADDRESS expect: deleted
  lci::deregister_memory(&object);
#endif
#ifdef WRONG_HANDLE
  // case WRONG_HANDLE expect: (could not convert|no matching function|no viable conversion).*mr_t
  lci::get_rmr(device);
#endif
#ifdef CONTEXT_AS_STATUS
  // case CONTEXT_AS_STATUS expect: (could not convert|cannot convert|no viable conversion)
  return context;
#endif
#ifdef NO_SIGNAL
  // case NO_SIGNAL expect: (abstract|pure virtual)
  incomplete_object incomplete;
#endif
#ifdef CAPTURING_HANDLER
  // case CAPTURING_HANDLER expect: (cannot convert|no viable conversion)
  lci::alloc_handler([context](lci::status_t) { (void)context; });
#endif
#ifdef NODE_WITHOUT_CONTEXT
  // case NODE_WITHOUT_CONTEXT expect: no member named .*user_context
  lci::graph_add_node_op(graph, contextless());
#endif
#ifdef NODE_NOT_CALLABLE
  // case NODE_NOT_CALLABLE expect: (no match for call|does not provide)
  lci::graph_add_node_op(graph, inert());
#endif
#ifdef UNKNOWN_ATTRIBUTE
  // case UNKNOWN_ATTRIBUTE expect: no member named .*get_attr_depth
  device.get_attr_depth();
#endif
#ifdef SETTER_OF_ANOTHER_RESOURCE
  // case SETTER_OF_ANOTHER_RESOURCE expect: no member named .*npackets
  lci::alloc_device_x().npackets(8);
#endif
#ifdef THRESHOLD_ON_COUNTER
  // case THRESHOLD_ON_COUNTER expect: no member named .*threshold
  lci::alloc_counter_x().threshold(8);
#endif
  object.signal(lci::status_t(context));
  lci::free_comp(&handler);
  return lci::status_t(context);
}
