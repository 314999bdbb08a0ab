// A host does not answer the kernel's questions. What comes from it all the same tells a busy
// network from a silent host.
#include <gtest/gtest.h>

#include <chrono>

#include "tests/support/scoped_env.hpp"
#include "tests/unit/ofi/lifeline_socket.hpp"
#include "tests/unit/ofi/world.hpp"

namespace lci::ofi {
namespace {

class silence_test : public on_a_network {
 protected:
  silence_test() {
    environment_.set("LCI_OFI_TIMEOUT", "3");
    test::fake_ofi_config config;
    config.has_host_names = true;
    fake().reset(config);
    group_ = open(2);
    meet(*group_, 0, 1);
    find_line();
  }
  void find_line() {
    fabric_address there;
    EXPECT_TRUE(fabric_address::parse(at(1).address(), there));
    door_ = std::make_unique<lifeline_socket>(there);
    const auto is_made = [&] { return static_cast<bool>(line_ = door_->take()); };
    EXPECT_TRUE(group_->until(is_made, "the lifeline"));
    // Until a look has seen that it is up.
    for (int i = 0; i < 200; ++i) {
      group_->poll();
      usleep(1000);
    }
  }
  bool is_asked_anew() { return static_cast<bool>(next_ = door_->take()); }
  bool is_gone() { return !group_->at(0).seen().gone().empty(); }

  test::scoped_env environment_;
  std::unique_ptr<test::group> group_;
  std::unique_ptr<lifeline_socket> door_;
  base::descriptor line_, next_;
};

}  // namespace

TEST_F(silence_test, nothing_comes__it_is_gone) {
  deafen(line_.get());
  ASSERT_TRUE(until_gone(*group_, 0));
  EXPECT_FALSE(group_->at(0).seen().gone()[0].orderly);
  EXPECT_EQ(group_->at(0).seen().gone()[0].reason, "its host is silent");
  EXPECT_FALSE(is_asked_anew());
}

// That our own host has taken a message says nothing of the other one. So few that no credit comes.
TEST_F(silence_test, only_ours_go__it_is_gone) {
  deafen(line_.get());
  const auto begin = std::chrono::steady_clock::now();
  auto bytes = test::pattern(1000, 1);  // too many to go without a completion
  net::net_op op;
  op.rank = 1;
  op.buffer = bytes.data();
  op.size = bytes.size();
  int sent = 0;
  ASSERT_TRUE(group_->until(
      [&] {
        const auto now = std::chrono::steady_clock::now();
        if (!is_gone() && now - begin > std::chrono::milliseconds(10) * sent) {
          EXPECT_EQ(group_->at(0).to().send(op), errorcode_t::done);
          ++sent;
        }
        return is_gone();
      },
      "a peer to be gone"));
  EXPECT_GT(sent, 50);
  EXPECT_FALSE(is_asked_anew());
}

TEST_F(silence_test, messages_come__it_is_asked_anew) {
  deafen(line_.get());
  ASSERT_TRUE(group_->until(
      [&] {
        send(*group_, 1, 0);
        return is_asked_anew() || is_gone();
      },
      "another lifeline"));
  EXPECT_FALSE(is_gone()) << "it sends";
  // The next one counts like the first.
  deafen(next_.get());
  ASSERT_TRUE(until_gone(*group_, 0));
}

TEST_F(silence_test, what_is_read_comes__it_is_asked_anew) {
  std::vector<std::byte> there(100), here(100);
  const net::remote_key key = group_->at(1).expose(there.data(), there.size());
  group_->learn(0, 1, key);
  test::op_fate fate;
  const net::net_op op = transfer_of(here, key, fate);
  deafen(line_.get());
  int posted = 0;
  ASSERT_TRUE(group_->until(
      [&] {
        if (fate.signals() == posted && !is_gone() &&
            group_->at(0).to().get(op) == errorcode_t::posted)
          ++posted;
        return is_asked_anew() || is_gone();
      },
      "another lifeline"));
  EXPECT_FALSE(is_gone()) << "it answers";
  ASSERT_TRUE(group_->until([&] { return fate.signals() == posted; }, "the last one"));
  group_->at(1).hide(key);
}

// Its message comes back and back, which is no sign of life, and does not hold up its end: what is
// lacking may be held by what was sent to it.
TEST_F(silence_test, its_message_is_deferred__it_is_gone) {
  group_->at(0).seen().on_arrival = [](const net::arrival&) { return net::verdict::deferred; };
  deafen(line_.get());
  EXPECT_EQ(send(*group_, 1, 0), errorcode_t::done);
  ASSERT_TRUE(until_gone(*group_, 0));
  EXPECT_EQ(group_->at(0).seen().gone()[0].reason, "its host is silent");
  EXPECT_FALSE(is_asked_anew());
}

// Who polls seldom reads late. It asks once more, since what it reads may have come long ago. Also
// if the first poll hears of the silence before it reads.
TEST_F(silence_test, polled_seldom__it_is_asked_anew) {
  deafen(line_.get());
  // One poll in so many looks after connections, which reads another queue.
  std::size_t reads = 0;
  do {
    reads = fake().calls("fi_cq_read");
    group_->at(0).poll();
    reads = fake().calls("fi_cq_read") - reads;
  } while (reads < 2);
  for (int i = 0; i < 63; ++i) group_->at(0).poll();
  // As if it computed: the kernel gives up meanwhile, and messages wait.
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(send(*group_, 1, 0), errorcode_t::done);
    usleep(1000000);
  }
  ASSERT_TRUE(group_->until([&] { return is_asked_anew() || is_gone(); }, "another lifeline"));
  EXPECT_FALSE(is_gone()) << "what came has not been read";
}

// Two devices: what comes to one of them counts for both.
TEST_F(silence_test, messages_come_to_another_device__it_is_asked_anew) {
  door_.reset();
  line_.reset();
  group_.reset();
  group_ = open(2, 2);
  meet(*group_, 0, 1);
  find_line();
  const auto send_on_the_second = [&] {
    const std::uint64_t word = 1;
    return group_->at(1).to(1).send_inline(0, 1, nullptr, 0, &word, sizeof(word));
  };
  group_->post(send_on_the_second);
  deafen(line_.get());
  ASSERT_TRUE(group_->until(
      [&] {
        send_on_the_second();
        return is_asked_anew() || is_gone();
      },
      "another lifeline"));
  EXPECT_FALSE(is_gone());
}

// Nobody takes the new call either, and nothing comes any more.
TEST_F(silence_test, asked_anew_in_vain__it_is_gone) {
  deafen(line_.get());
  deafen(door_->get());
  const auto begin = std::chrono::steady_clock::now();
  ASSERT_TRUE(group_->until(
      [&] {
        if (std::chrono::steady_clock::now() - begin < std::chrono::milliseconds(2500))
          send(*group_, 1, 0);
        return is_gone();
      },
      "a peer to be gone"));
  EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(2500))
      << "as long as it sends it is not";
}

}  // namespace lci::ofi
