// The attribute check_pointers: a GPU pointer that a post says nothing of is found before it is
// touched.
#include "tests/accelerator/interface/common.hpp"

namespace accelerator_test {
namespace {

using interface_test::text_thrown;

TEST(check_pointers, gpu_memory_given_as_host_memory__is_an_error_that_says_what_to_add) {
  lci::net_context_t network = lci::alloc_net_context_x().check_pointers(true)();
  EXPECT_TRUE(network.get_attr_check_pointers());
  lci::device_t device = lci::alloc_device_x().net_context(network)();
  block memory(place::device, 65536);
  std::byte* const at = memory.get();
  const owned_comp done(lci::alloc_counter());
  const int me = world().rank;
  const lci::rcomp_t number = lci::register_rcomp(done);
  for (const std::size_t size : {std::size_t{8}, std::size_t{4096}, std::size_t{65536}}) {
    for (const std::string& text : {text_thrown<lci::argument_error>([&] {
                                      lci::post_send_x(me, at, size, 1, done).device(device)();
                                    }),
                                    text_thrown<lci::argument_error>([&] {
                                      lci::post_recv_x(me, at, size, 1, done).device(device)();
                                    }),
                                    text_thrown<lci::argument_error>([&] {
                                      lci::post_am_x(me, at, size, done, number).device(device)();
                                    })})
      EXPECT_NE(text.find(".mr(MR_DEVICE)"), std::string::npos) << text;
  }
  EXPECT_EQ(lci::counter_get(done), 0);
  lci::deregister_rcomp(number);
  // Host memory, and GPU memory that is named, go as ever.
  std::uint64_t out = 42, in = 0;
  lci::post_recv_x(me, &in, sizeof in, 2, done).device(device).allow_done(false)();
  lci::post_send_x(me, &out, sizeof out, 2, lci::COMP_NULL).device(device)();
  lci::post_recv_x(me, at, 64, 3, done).device(device).mr(lci::MR_DEVICE).allow_done(false)();
  lci::post_send_x(me, at + 4096, 64, 3, lci::COMP_NULL_RETRY)
      .device(device)
      .mr(lci::MR_DEVICE)
      .local_comp(done)
      .allow_done(false)();
  while (lci::counter_get(done) < 3) lci::progress_x().device(device)();
  EXPECT_EQ(in, 42u);
  barrier();
  lci::free_device(&device);
  lci::free_net_context(&network);
}

// The driver is asked anyway.
TEST(check_pointers, host_memory_given_as_gpu_memory__is_an_error) {
  std::uint64_t here = 1;
  const owned_comp done(lci::alloc_counter());
  const int me = world().rank;
  for (const std::string& text :
       {text_thrown<lci::argument_error>(
            [&] { lci::post_send_x(me, &here, sizeof here, 1, done).mr(lci::MR_DEVICE)(); }),
        text_thrown<lci::argument_error>(
            [&] { lci::post_recv_x(me, &here, sizeof here, 1, done).mr(lci::MR_DEVICE)(); })})
    EXPECT_NE(text.find("is no GPU memory"), std::string::npos) << text;
  EXPECT_EQ(lci::counter_get(done), 0);
}

TEST(check_pointers, off__is_the_default_of_release_builds) {
#ifdef LCI_DEBUG
  EXPECT_TRUE(lci::get_g_default_attr().check_pointers);
#else
  EXPECT_FALSE(lci::get_g_default_attr().check_pointers);
#endif
}

}  // namespace
}  // namespace accelerator_test
