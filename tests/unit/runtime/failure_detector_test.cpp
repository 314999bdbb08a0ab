// What the bootstrap says of ranks that are gone, and what a runtime makes of it.
#include "lci/runtime/failure_detector.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "lci/base/thread_id.hpp"
#include "lci/proto/host/arrival.hpp"
#include "lci/runtime/global.hpp"
#include "tests/unit/proto/world.hpp"

namespace lci::runtime {
namespace {

class told_bootstrap final : public boot::bootstrap {
 public:
  const char* name() const noexcept override { return "told"; }
  int rank() const noexcept override { return 0; }
  int size() const noexcept override { return 3; }
  void put(const std::string&, const std::string&) override {}
  void fence() override {}
  std::string get(int, const std::string&) override { return {}; }
  std::vector<boot::departure> news() override {
    asked += 1;
    return std::exchange(to_say, {});
  }
  std::vector<boot::departure> to_say;
  int asked = 0;
};

class failure_detector_test : public testing::Test {
 protected:
  failure_detector_test() {
    auto made = std::make_unique<told_bootstrap>();
    boot_ = made.get();
    global().bootstrap = std::move(made);
  }
  ~failure_detector_test() override {
    global().bootstrap.reset();
    global().departures.clear();
  }
  // The bootstrap has been asked so often more.
  void listen(int times) {
    for (const int until = boot_->asked + times; boot_->asked < until;) news_.look();
  }
  errorcode_t receive(int from) {
    status_t got;
    return w_[0].receive(from, bytes_, sizeof bytes_, 5, &seen_, got);
  }

  told_bootstrap* boot_ = nullptr;
  test::proto_world w_{{}, 3};
  proto::core& core_ = w_[0].core;
  failure_detector news_{core_};
  test::recorder seen_;
  char bytes_[16];
};

// A thread that is in a fence has the lock, and must not ask for it again.
TEST_F(failure_detector_test, look__in_a_fence_of_this_thread_asks_nobody) {
  const auto look_at_once = [&] {
    const int before = boot_->asked;
    failure_detector fresh(core_);  // has no pause to keep
    fresh.look();
    return boot_->asked - before;
  };
  EXPECT_EQ(look_at_once(), 1);
  global().meeting_thread = base::thread_id();
  EXPECT_EQ(look_at_once(), 0);
  global().meeting_thread = global_state::NO_THREAD;
  EXPECT_EQ(look_at_once(), 1);
}

TEST_F(failure_detector_test, leave_of_a_rank_that_nobody_met__ends_receives_from_it) {
  EXPECT_EQ(receive(1), errorcode_t::posted);
  EXPECT_EQ(receive(ANY_SOURCE), errorcode_t::posted);
  boot_->to_say = {{1, boot::LEFT_TEXT, true}};
  listen(2);
  EXPECT_TRUE(core_.peers.has_ended(1));
  EXPECT_TRUE(core_.peers.failed().empty());
  EXPECT_TRUE(core_.is_all_in(1));
  EXPECT_THROW(w_[0].queues->progress(), peer_failure_error);
  EXPECT_EQ(w_[0].queues->host.open_receives.sum(), 1);
  EXPECT_FALSE(core_.peers.has_ended(2));
}

// The network says when everything has come.
TEST_F(failure_detector_test, leave_of_a_rank_that_was_met__is_left_to_the_network) {
  w_[0].fabric->connect(1);
  EXPECT_EQ(receive(1), errorcode_t::posted);
  boot_->to_say = {{1, boot::LEFT_TEXT, true}};
  listen(5);
  EXPECT_FALSE(core_.peers.has_ended(1));
  proto::single_arrival(w_[0].queues->host).on_peer_ended(1, true, "it has left");
  listen(2);
  EXPECT_TRUE(core_.peers.has_ended(1));
  EXPECT_FALSE(core_.peers.has_failed(1));
}

TEST_F(failure_detector_test, leave__is_heard_by_each_runtime) {
  boot_->to_say = {{1, boot::LEFT_TEXT, true}};
  listen(1);
  failure_detector of_another(w_[2].core);
  for (const int until = boot_->asked + 1; boot_->asked < until;) of_another.look();
  EXPECT_TRUE(w_[2].core.peers.has_ended(1));
}

}  // namespace
}  // namespace lci::runtime
