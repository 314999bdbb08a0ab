// The end of a link that has operations.
#include "lci/transport/link.hpp"

#include <gtest/gtest.h>

#include "lci/errors.hpp"
#include "lci/runtime/runtime.hpp"
#include "tests/unit/transport/ends.hpp"

namespace lci::transports {
namespace {

// Is asked for the list of calls just before an operation ends.
struct watching_owner final : link_owner {
  void on_note(const notification&) override {}
  bool uses_gpu() const noexcept override { return false; }
  std::vector<operation::call>& calls() noexcept override {
    ++ends;
    if (watched != nullptr && !watched->is_done() && watched->is_quiet()) ++quiet_ends;
    return all;
  }
  std::shared_ptr<operation> watched;
  int ends = 0, quiet_ends = 0;
  std::vector<operation::call> all;
};

// Who sees that an operation is done may free its buffer at once.
TEST(link, end__operations_are_quiet_before_they_are_done) {
  watching_owner owner;
  const auto one = std::make_shared<link>(owner, std::weak_ptr<core>(), 0);
  owner.watched = std::make_shared<operation>(std::weak_ptr<core>());
  one->submit(owner.watched);
  one->end(nullptr, "closed by this side");
  EXPECT_EQ(owner.ends, 1);
  EXPECT_EQ(owner.quiet_ends, 1);
  EXPECT_TRUE(owner.watched->is_done());
  EXPECT_THROW(std::rethrow_exception(owner.watched->problem()), peer_failure_error);
}

std::string text_of(const std::exception_ptr& problem, int number) {
  try {
    std::rethrow_exception(problem);
  } catch (const peer_failure_error& e) {
    EXPECT_EQ(e.failed_rank(), number);
    return e.what();
  }
}

class link_texts_test : public test::room_test {};

// A program has no ranks: it knows its peer by a number.
TEST_F(link_texts_test, end__device_says_that_a_rank_is_lost) {
  test::ends e;
  e.connect();
  watching_owner owner;
  const auto one = std::make_shared<link>(owner, std::weak_ptr<core>(), 7);
  one->attach(e.at_root);
  one->turn(true);
  const auto move_until = [&](link::state wanted) {
    return e.run_until([&] {
      one->progress(std::chrono::steady_clock::now());
      return one->now() == wanted;
    });
  };
  ASSERT_TRUE(move_until(link::state::connected));
  const auto op = std::make_shared<operation>(std::weak_ptr<core>());
  op->notify = true;
  one->submit(op);
  e.at_root->runtime().p_impl->core.peers.report(1, net::peer_event::fail, "rank 1 is silent");
  ASSERT_TRUE(move_until(link::state::closed));
  EXPECT_EQ(one->why(), "the peer is silent");
  for (const std::exception_ptr& problem : {one->problem(), op->problem()})
    EXPECT_EQ(text_of(problem, 7), "peer 7 is lost: the peer is silent");
  EXPECT_THROW(one->submit(op), peer_failure_error);
}

TEST_F(link_texts_test, end__of_a_connection_that_was_never_made) {
  hub listener(test::patient()), caller(test::patient());
  watching_owner owner;
  const auto one = std::make_shared<link>(owner, std::weak_ptr<core>(), 7);
  one->attach(caller.connect(listener.bind()));
  listener.stop();
  ASSERT_TRUE(test::run({&caller}, [&] {
    one->progress(std::chrono::steady_clock::now());
    return one->now() == link::state::closed;
  }));
  EXPECT_EQ(text_of(one->problem(), 7),
            "the connection to peer 7 could not be made: " + one->why());
}

TEST_F(link_texts_test, end__in_an_orderly_way) {
  watching_owner owner;
  const auto one = std::make_shared<link>(owner, std::weak_ptr<core>(), 7);
  const auto op = std::make_shared<operation>(std::weak_ptr<core>());
  one->submit(op);
  one->end(nullptr, "closed by this side");
  EXPECT_EQ(text_of(op->problem(), 7), "the connection to peer 7 has ended: closed by this side");
  EXPECT_EQ(one->problem(), nullptr);
}

}  // namespace
}  // namespace lci::transports
