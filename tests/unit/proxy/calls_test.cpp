// Calls that wait for a peer. What each call does is in tests/interface/gpu_proxy_test.cpp.
#include "tests/unit/proxy/proxied_job.hpp"

namespace lci::proxy {
namespace {

test::sim_options never_connected() {
  test::sim_options options;
  options.connect_polls = 1u << 30;
  return options;
}

// Of the memory nothing is known yet when the peer leaves.
TEST(get_gpu_key, of_a_peer_that_leaves_the_network_before_it_was_met) {
  std::uint64_t theirs = 0;
  test::proxied_job job(never_connected());
  const rmr_t rmr = job.expose(&theirs, sizeof(theirs));
  gpu::endpoint_t ep = job.endpoint();
  job.device().context.fabric->connect(test::proxied_job::PEER);
  job.leave_network();
  job.end_after_rounds();
  EXPECT_THROW(get_gpu_key_x(rmr).endpoint(ep).rank(test::proxied_job::PEER).call(),
               peer_failure_error);
  EXPECT_FALSE(job.runtime().core.peers.has_ended(test::proxied_job::PEER))
      << "the call has waited for the end of a rank that has left one network only";
  free_gpu_endpoint_x(&ep).call();
}

}  // namespace
}  // namespace lci::proxy
