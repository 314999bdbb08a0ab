// What a call that waits leaves behind. Other ways of collectives through the interface are tested
// in tests/coll.
#include "lci/coll/run.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "tests/support/scoped_env.hpp"
#include "tests/unit/proxy/proxied_job.hpp"

namespace lci::coll {
namespace {

using lci::test::proxied_job;

// Steps that rounds of progress of the call come by, now and then.
class meanwhile final : public proto::failure_detector {
 public:
  meanwhile(proto::core& of, std::vector<std::function<void()>> steps)
      : of_(of), steps_(std::move(steps)) {
    of_.failures = this;
  }
  ~meanwhile() { of_.failures = nullptr; }
  void look() noexcept override {
    if (done_ < steps_.size()) steps_[done_++]();
  }
  std::size_t done() const { return done_; }

 private:
  proto::core& of_;
  const std::vector<std::function<void()>> steps_;
  std::size_t done_ = 0;
};

// A collective of two ranks, of which the other has sent its message already. The network takes no
// message of this rank at first.
class run_test : public testing::Test {
 protected:
  run_test() {
    env_.set("LCI_CHECK_COLLECTIVES", "0");  // read once; here it would be a collective before each
    job_.meet();
    peer_sends();
    take(0);
  }
  ~run_test() override {
    take(64);
    job_.step(100);
  }
  // What the first barrier of an engine waits for.
  void peer_sends() {
    const rcomp_t of_engine = job_.runtime().collective_engine.p_impl->match.first_rcomp +
                              static_cast<rcomp_t>(matching_policy_t::rank_tag);
    auto out = job_.peer().outgoing(proxied_job::ME, nullptr, 0, of_engine, 0);
    ASSERT_EQ(proto::start_message(out), errorcode_t::done);
  }
  void take(std::size_t at_most) {
    job_.sim().change([&](lci::test::sim_options& o) { o.depth = at_most; });
  }
  std::uint64_t taken() { return job_.sim().counters().messages - before_; }
  bool has_backlog() { return queue().log.pending(proxied_job::PEER); }
  proto::post_queue& queue() { return *job_.device().default_endpoint.p_impl->queue; }

  lci::test::scoped_env env_;
  proxied_job job_;
  std::uint64_t before_ = 0;
};

TEST_F(run_test, call_that_waits__stays_until_its_message_has_left) {
  before_ = job_.sim().counters().messages;
  const meanwhile rounds(job_.runtime().core, {[] {},
                                               [this] {
                                                 EXPECT_TRUE(has_backlog());
                                                 EXPECT_EQ(taken(), 0u);
                                                 take(64);
                                               }});
  barrier_x().runtime(job_.handle())();
  EXPECT_EQ(rounds.done(), 2u);
  EXPECT_EQ(taken(), 1u);
  EXPECT_FALSE(has_backlog());
}

// Others may leave something there again and again.
TEST_F(run_test, call_that_waits__not_for_what_others_leave_behind_it) {
  before_ = job_.sim().counters().messages;
  comp_t ended = alloc_counter_x().runtime(job_.handle())();
  const auto post = [&] {
    int word = 0;
    const status_t said = post_send_x(proxied_job::PEER, &word, sizeof word, 7, ended)
                              .runtime(job_.handle())
                              .allow_retry(false)();
    EXPECT_EQ(said.error.errorcode, errorcode_t::done_backlog);
  };
  const auto nothing = [] {};
  const meanwhile rounds(job_.runtime().core, {nothing,
                                               [&] {
                                                 post();
                                                 take(1);
                                               },
                                               nothing, nothing, [this] { take(64); }});
  barrier_x().runtime(job_.handle())();
  EXPECT_EQ(taken(), 1u);
  EXPECT_TRUE(has_backlog()) << "it has waited for that, too";
  free_comp(&ended);
}

}  // namespace
}  // namespace lci::coll
