// What real programs do with the interface beyond calling it: classes of their own, handles in
// containers and atomics, addresses turned into handles. Compiling this file is the test.
#include <atomic>

#include "lci.hpp"

namespace client {

class own_completion : public lci::comp_impl_t {
 public:
  own_completion() { attr.zero_copy_am = true; }
  explicit own_completion(const attr_t& given) : lci::comp_impl_t(given) {}
  void signal(lci::status_t status) override { last = status; }
  lci::status_t last;
};

class own_allocator : public lci::allocator_base_t {
 public:
  void* allocate(size_t size) override { return ::operator new(size); }
  void deallocate(void* p) override { ::operator delete(p); }
};

// A node operation of a program's own: its context setter returns something else.
struct own_operation {
  void* context;
  void user_context(void* value) { context = value; }
  int operator()() { return 7; }
};

struct parcel {
  std::vector<lci::device_t> devices;
  std::atomic<lci::tag_t> next_tag;
  lci::comp_t completion = nullptr;
  lci::mr_impl_t* regions[4];
};

lci::comp_t completion_of(own_completion* object) {
  return lci::comp_t(static_cast<void*>(object));
}

lci::rcomp_t own_objects(own_completion& object, own_allocator& allocator, lci::comp_t graph) {
  lci::set_allocator(&allocator);
  lci::comp_t comp = completion_of(&object);
  own_completion* back = static_cast<own_completion*>(comp.get_impl());
  back->signal(lci::status_t(static_cast<void*>(back)));
  own_operation operation = own_operation();
  lci::graph_node_t node = lci::graph_add_node_op(graph, operation);
  lci::graph_add_edge(graph, node, lci::GRAPH_END);
  return lci::register_rcomp(comp);
}

bool send_parcel(parcel& p, int rank, void* buffer, size_t size, lci::rmr_t rmr, char* address) {
  if (p.completion == nullptr || p.completion.is_empty()) p.completion = lci::alloc_cq();
  const lci::device_t device = p.devices.front();
  lci::mr_t region(p.regions[0]);
  const uintptr_t disp = reinterpret_cast<uintptr_t>(address) - rmr.base;
  lci::status_t status = lci::post_put_x(rank, buffer, size, p.completion, disp, rmr)
                             .mr(region)
                             .device(device)
                             .user_context(&p)();
  // A stored operation is changed and run again.
  lci::post_send_x op(rank, buffer, size, p.next_tag++, p.completion);
  op.device(device).allow_done(false);
  while ((status = op.call()).is_retry()) lci::progress_x().device(device)();
  op.rank(rank + 1);
  lci::post_send_x copy = op;
  status = copy.tag(3).allow_retry(false)();
  p.regions[1] = lci::register_memory_x(buffer, size).device(device)().get_impl();
  int max_tag = static_cast<int>(lci::get_g_runtime().get_attr_max_tag());
  return status.is_posted() && max_tag > 0;
}

unsigned lock_mode_of_an_old_program() {
  // Words of the C library beside ours: lci::error_t must be spelled out.
  using namespace lci;
  global_attr_t attr = get_g_default_attr();
  attr.ofi_lock_mode = lci::LCI_NET_TRYLOCK_SEND | lci::LCI_NET_TRYLOCK_RECV;
  set_g_default_attr(attr);
  lci::error_t error;
  return error.is_retry() ? static_cast<unsigned>(attr.ofi_lock_mode) : 0u;
}

}  // namespace client
