// What is asked of the card of a peer that has left the network. Cards themselves are in
// experimental/tests/endpoints.
#include "lci/proxy/card_lane.hpp"

#include "lci/proxy/tier.hpp"
#include "tests/unit/proxy/proxied_job.hpp"

namespace lci::proxy {
namespace {

// No question to it begins any more, so none is lost.
TEST(ask, of_a_peer_that_has_left_the_network) {
  test::proxied_job job;
  job.meet();
  job.leave_network();
  const auto has_left = [&] {
    return job.device().queues.engine().watch.has_ended(test::proxied_job::PEER);
  };
  ASSERT_TRUE(job.step_until(has_left));
  job.end_after_rounds();
  proto::card_question question;
  question.rank = test::proxied_job::PEER;
  EXPECT_THROW(ask(job.device(), question), tier_peer_error);
  EXPECT_FALSE(job.runtime().core.peers.has_ended(test::proxied_job::PEER))
      << "the call has waited for the end of a rank that has left one network only";
}

}  // namespace
}  // namespace lci::proxy
