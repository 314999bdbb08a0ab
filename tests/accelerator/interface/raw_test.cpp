// Raw posts of GPU memory: taken where the network can, and refused before anything touches it
// where not, since no protocol is there that would bring the bytes another way.
#include "lci/errors.hpp"
#include "tests/accelerator/interface/common.hpp"

namespace accelerator_test {
namespace {

using interface_test::text_thrown;
using interface_test::window;

class raw : public testing::Test {
 protected:
  template <class Action>
  static void refused(Action action, const char* part) {
    const std::string text = text_thrown<lci::argument_error>(action);
    EXPECT_NE(text.find(part), std::string::npos) << text;
  }
  const int me_ = world().rank;
  const lci::device_t device_ = world().device;
  window there_{4096};
};

// No network of these tests takes it.
TEST_F(raw, gpu_memory__is_refused_however_it_is_named) {
  const block memory(place::device, 4096);
  std::byte* const at = memory.get();
  lci::mr_t mr = lci::register_memory_x(at, 4096).device(device_)();
  const lci::rmr_t rmr = there_.rmr(me_);
  for (const lci::mr_t given : {lci::MR_DEVICE, lci::MR_UNKNOWN, mr}) {
    const char* const why = "do not go through host memory";
    refused([&] { lci::net_post_send_x(me_, at, 64, given).device(device_)(); }, why);
    refused([&] { lci::net_post_put_x(me_, at, 64, given, 0, rmr).device(device_)(); }, why);
    refused([&] { lci::net_post_putImm_x(me_, at, 64, given, 0, rmr).device(device_)(); }, why);
    refused([&] { lci::net_post_get_x(me_, at, 64, given, 0, rmr).device(device_)(); }, why);
    refused([&] { lci::net_post_recv_x(at, 64, given).device(device_)(); }, why);
  }
  lci::deregister_memory(&mr);
}

TEST_F(raw, host_memory_said_to_be_of_a_gpu__is_refused) {
  char here[64] = {};
  const lci::rmr_t rmr = there_.rmr(me_);
  const char* const why = "is no GPU memory";
  refused([&] { lci::net_post_send_x(me_, here, 64, lci::MR_DEVICE).device(device_)(); }, why);
  refused([&] { lci::net_post_put_x(me_, here, 64, lci::MR_DEVICE, 0, rmr).device(device_)(); },
          why);
  refused([&] { lci::net_post_get_x(me_, here, 64, lci::MR_DEVICE, 0, rmr).device(device_)(); },
          why);
  refused([&] { lci::net_post_recv_x(here, 64, lci::MR_DEVICE).device(device_)(); }, why);
}

TEST_F(raw, gpu_memory_given_as_host_memory__is_found_where_pointers_are_checked) {
  lci::net_context_t network = lci::alloc_net_context_x().check_pointers(true)();
  lci::device_t device = lci::alloc_device_x().net_context(network)();
  const block memory(place::device, 4096);
  std::byte* const at = memory.get();
  const lci::rmr_t rmr = there_.rmr(me_);
  const char* const why = ".mr(MR_DEVICE)";
  refused([&] { lci::net_post_send_x(me_, at, 64, lci::MR_HOST).device(device)(); }, why);
  refused([&] { lci::net_post_sends_x(me_, at, 8).device(device)(); }, why);
  refused([&] { lci::net_post_puts_x(me_, at, 8, 0, rmr).device(device)(); }, why);
  refused([&] { lci::net_post_put_x(me_, at, 64, lci::MR_HOST, 0, rmr).device(device)(); }, why);
  refused([&] { lci::net_post_get_x(me_, at, 64, lci::MR_HOST, 0, rmr).device(device)(); }, why);
  refused([&] { lci::net_post_recv_x(at, 64, lci::MR_HOST).device(device)(); }, why);
  barrier();
  lci::free_device(&device);
  lci::free_net_context(&network);
}

}  // namespace
}  // namespace accelerator_test
