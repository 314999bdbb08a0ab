// Things that others still need are not freed: a typed error that says how many need it, and
// everything works as before.
#include "bad_input.hpp"

namespace interface_test {
namespace {

// In a runtime of its own: ranks that leave a net context are noted.
class free_order : public bad_input {
 protected:
  ~free_order() override { lci::free_runtime(&own_); }
  lci::runtime_t own_ = lci::alloc_runtime();
};

TEST_F(free_order, net_context__before_its_devices) {
  lci::net_context_t context = lci::alloc_net_context_x().runtime(own_)();
  const lci::net_context_t known = context;
  lci::device_t first = lci::alloc_device_x().runtime(own_).net_context(context)();
  lci::device_t second = lci::alloc_device_x().runtime(own_).net_context(context)();
  refused([&] { lci::free_net_context(&context); },
          {"free_net_context", "2 devices still use it", "free_device()"});
  lci::free_device(&second);
  refused([&] { lci::free_net_context(&context); },
          {"free_net_context", "1 device still uses it", "free_device()"});
  EXPECT_EQ(context.p_impl, known.p_impl) << "the handle was emptied";
  lci::barrier_x().runtime(own_).device(first)();
  lci::free_device(&first);
  lci::free_net_context(&context);
  EXPECT_TRUE(context.is_empty());
}

TEST_F(free_order, net_context__the_default) {
  lci::net_context_t context = lci::get_default_net_context_x().runtime(own_)();
  refused([&] { lci::free_net_context(&context); }, {"free_net_context", "still use"});
  EXPECT_EQ(lci::get_default_net_context_x().runtime(own_)().p_impl, context.p_impl);
}

TEST_F(free_order, net_context__before_its_registrations) {
  lci::net_context_t context = lci::alloc_net_context_x().runtime(own_)();
  lci::device_t device = lci::alloc_device_x().runtime(own_).net_context(context)();
  lci::mr_t mr = lci::register_memory_x(buffer_, 8).device(device)();
  lci::barrier_x().runtime(own_).device(device)();
  lci::free_device(&device);
  refused([&] { lci::free_net_context(&context); },
          {"free_net_context", "1 memory registration still uses it", "deregister_memory()"});
  lci::deregister_memory(&mr);
  lci::free_net_context(&context);
}

TEST_F(free_order, packet_pool__before_its_devices) {
  lci::packet_pool_t pool = lci::alloc_packet_pool_x().runtime(own_).npackets(4096)();
  lci::device_t device = lci::alloc_device_x().runtime(own_).packet_pool(pool)();
  refused([&] { lci::free_packet_pool(&pool); },
          {"free_packet_pool", "1 device still uses it", "free_device()"});
  EXPECT_FALSE(pool.is_empty());
  lci::barrier_x().runtime(own_).device(device)();
  lci::free_device(&device);
  lci::free_packet_pool(&pool);
}

}  // namespace
}  // namespace interface_test
