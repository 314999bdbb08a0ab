// Blocking posts whose operation fails: the call throws the reason of that, whatever else progress
// has to throw meanwhile.
#include <cstdlib>
#include <stdexcept>

#include "lci/errors.hpp"
#include "world.hpp"

namespace interface_test {
namespace {

// Sends this rank more than the receive takes, which waits by then, and fails itself.
void send_too_much(lci::status_t status) {
  std::free(status.buffer);
  char large[16] = {};
  insist(lci::post_send_x(world().rank, large, sizeof large, 7, lci::COMP_NULL_RETRY)
             .device(world().device));
  throw std::domain_error("the handler fails");
}

TEST(failing_post, receive_that_is_too_small_while_a_handler_fails__throws_its_own_reason) {
  barrier();
  owned_comp handler(lci::alloc_handler(&send_too_much));
  const lci::rcomp_t number = lci::register_rcomp(handler);
  char byte = 0, small[4] = {};
  insist(
      lci::post_am_x(world().rank, &byte, 1, lci::COMP_NULL_RETRY, number).device(world().device));
  EXPECT_THROW(lci::post_recv_x(world().rank, small, sizeof small, 7, lci::COMP_NULL)
                   .device(world().device)(),
               lci::truncation_error);
  EXPECT_THROW(progress(), std::domain_error);
  EXPECT_NO_THROW(linger());
  char large[16];
  lci::post_recv_x(world().rank, large, sizeof large, 7, lci::COMP_NULL).device(world().device)();
  lci::deregister_rcomp(number);
  barrier();
}

}  // namespace
}  // namespace interface_test
