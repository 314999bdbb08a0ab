// Send and receive: which message meets which receive. Order per key, policies that never collide,
// wildcards, all 64 bits of the tag, receives that are too small, engines of a program's own.
#include "world.hpp"

namespace interface_test {
namespace {

using lci::ANY_SOURCE;
using lci::ANY_TAG;
using policy = lci::matching_policy_t;

class matching : public testing::Test {
 protected:
  lci::post_send_x send(int& value, lci::tag_t tag) {
    return lci::post_send_x(world().next(), &value, sizeof value, tag, lci::COMP_NULL)
        .device(world().device);
  }
  lci::post_recv_x recv(int& value, int rank, lci::tag_t tag) {
    return lci::post_recv_x(rank, &value, sizeof value, tag, received_).device(world().device);
  }
  // The status of a receive that is complete at once or later.
  lci::status_t finish(const lci::status_t& status) {
    return status.is_done() ? status : pop(received_);
  }
  void TearDown() override {
    EXPECT_TRUE(stays_empty(received_));
    barrier();
  }
  owned_comp received_{lci::alloc_cq()};
};

TEST_F(matching, same_key__first_in_first_out) {
  constexpr int COUNT = 100;
  for (int i = 0; i < COUNT; ++i) EXPECT_TRUE(send(i, 1)().is_done());
  for (int i = 0; i < COUNT; ++i) {
    int value = -1;
    finish(recv(value, world().previous(), 1)());
    EXPECT_EQ(value, i);
  }
}

TEST_F(matching, same_key__receives_are_filled_in_the_order_of_their_posts) {
  constexpr std::size_t COUNT = 50;
  std::vector<int> values(COUNT, -1);
  for (int& value : values) EXPECT_TRUE(recv(value, world().previous(), 1)().is_posted());
  barrier();
  for (int i = 0; i < static_cast<int>(COUNT); ++i) EXPECT_TRUE(send(i, 1)().is_done());
  for (std::size_t i = 0; i < COUNT; ++i) pop(received_);
  for (std::size_t i = 0; i < COUNT; ++i) EXPECT_EQ(values[i], static_cast<int>(i));
}

TEST_F(matching, order__holds_across_protocols) {
  // A rendezvous between two small messages of the same key: the second receive is the large one.
  std::vector<char> large = pattern(world().bcopy * 4, 3), in(large.size());
  owned_comp sent(lci::alloc_cq());
  int first = 1, last = 3, value = 0;
  EXPECT_TRUE(send(first, 1)().is_done());
  EXPECT_TRUE(lci::post_send_x(world().next(), large.data(), large.size(), 1, sent)
                  .device(world().device)()
                  .is_posted());
  EXPECT_TRUE(send(last, 1)().is_done());
  finish(recv(value, world().previous(), 1)());
  EXPECT_EQ(value, 1);
  finish(lci::post_recv_x(world().previous(), in.data(), in.size(), 1, received_)
             .device(world().device)());
  EXPECT_EQ(difference(in.data(), in.size(), 3), "");
  finish(recv(value, world().previous(), 1)());
  EXPECT_EQ(value, 3);
  EXPECT_TRUE(pop(sent).is_done());
}

TEST_F(matching, tags__all_64_bits_count) {
  // Neighbours that differ in one bit only, also beyond 32 bits, sent in one order and received in
  // the other.
  const std::vector<lci::tag_t> tags = {0,
                                        65535,
                                        65536,
                                        0x7fffffff,
                                        0x80000000,
                                        0xffffffff,
                                        lci::tag_t{1} << 32,
                                        (lci::tag_t{1} << 32) + 1,
                                        lci::tag_t{1} << 63,
                                        ANY_TAG - 1};
  for (std::size_t i = 0; i < tags.size(); ++i) {
    int value = static_cast<int>(i);
    EXPECT_TRUE(send(value, tags[i])().is_done());
  }
  for (std::size_t i = tags.size(); i-- > 0;) {
    int value = -1;
    const lci::status_t status = finish(recv(value, world().previous(), tags[i])());
    EXPECT_EQ(status.tag, tags[i]);
    EXPECT_EQ(value, static_cast<int>(i));
  }
}

TEST_F(matching, tags__large_ones_with_every_size) {
  for (const size_at at : ALL_SIZES) {
    const std::vector<char> out = pattern(bytes(at), 5);
    std::vector<char> in(out.size());
    owned_comp sent(lci::alloc_cq());
    const lci::tag_t tag = lci::tag_t{0xabcdef} << 40;
    const lci::status_t recv =
        lci::post_recv_x(world().previous(), in.data(), in.size(), tag, received_)
            .device(world().device)();
    const lci::status_t send = insist(
        lci::post_send_x(world().next(), const_cast<char*>(out.data()), out.size(), tag, sent)
            .device(world().device));
    EXPECT_EQ(finish(recv).tag, tag) << name_of(at);
    if (send.is_posted()) {
      EXPECT_EQ(pop(sent).tag, tag) << name_of(at);
    }
    EXPECT_EQ(difference(in.data(), in.size(), 5), "") << name_of(at);
  }
}

// One message of each policy with the keys that would collide if the policy were no part of the
// key.
TEST_F(matching, policies__never_collide) {
  const lci::tag_t tag = 0;
  int values[] = {10, 11, 12, 13};
  const policy policies[] = {policy::none, policy::rank_only, policy::tag_only, policy::rank_tag};
  for (const int i : {0, 1, 2, 3})
    EXPECT_TRUE(send(values[i], tag).matching_policy(policies[i])().is_done());
  for (const int i : {3, 1, 2, 0}) {
    int value = -1;
    finish(recv(value, world().previous(), tag).matching_policy(policies[i])());
    EXPECT_EQ(value, values[i]) << "policy " << i;
  }
}

TEST_F(matching, policies__ignore_what_takes_no_part) {
  int one = 1, two = 2, three = 3, value = -1;
  EXPECT_TRUE(send(one, 100).matching_policy(policy::rank_only)().is_done());
  EXPECT_TRUE(send(two, 200).matching_policy(policy::none)().is_done());
  EXPECT_TRUE(send(three, 300).matching_policy(policy::tag_only)().is_done());
  const int other = (world().previous() + 1) % world().n;
  lci::status_t status =
      finish(recv(value, world().previous(), 999).matching_policy(policy::rank_only)());
  EXPECT_EQ(value, 1);
  EXPECT_EQ(status.tag, 100u) << "the status tells the message's own tag";
  status = finish(recv(value, other, 998).matching_policy(policy::none)());
  EXPECT_EQ(value, 2);
  EXPECT_EQ(status.rank, world().previous());
  finish(recv(value, other, 300).matching_policy(policy::tag_only)());
  EXPECT_EQ(value, 3);
}

// A wildcard takes what it covers whatever policy it was sent with, the oldest first.
TEST_F(matching, wildcards__take_messages_of_every_policy_in_order) {
  const policy policies[] = {policy::rank_tag, policy::none, policy::tag_only, policy::rank_only};
  int values[] = {20, 21, 22, 23};
  for (const int i : {0, 1, 2, 3})
    EXPECT_TRUE(send(values[i], 7).matching_policy(policies[i])().is_done());
  barrier();
  linger();
  for (const int i : {0, 1, 2, 3}) {
    int value = -1;
    const lci::status_t status = finish(recv(value, ANY_SOURCE, ANY_TAG)());
    EXPECT_EQ(value, values[i]);
    EXPECT_EQ(status.rank, world().previous());
    EXPECT_EQ(status.tag, 7u);
  }
}

TEST_F(matching, wildcards__one_sided_ones_keep_to_the_other_side) {
  int a = 1, b = 2, value = -1;
  EXPECT_TRUE(send(a, 1)().is_done());
  EXPECT_TRUE(send(b, 2)().is_done());
  EXPECT_EQ(finish(recv(value, ANY_SOURCE, 2)()).tag, 2u);
  EXPECT_EQ(value, 2);
  EXPECT_EQ(finish(recv(value, world().previous(), ANY_TAG)()).tag, 1u);
  EXPECT_EQ(value, 1);
}

TEST_F(matching, wildcards__waiting_ones_and_exact_ones_share_the_messages) {
  int values[] = {1, 2};
  int wild = -1, exact = -1;
  EXPECT_TRUE(recv(exact, world().previous(), 2)().is_posted());
  EXPECT_TRUE(recv(wild, ANY_SOURCE, ANY_TAG)().is_posted());
  barrier();
  EXPECT_TRUE(send(values[0], 1)().is_done());
  EXPECT_TRUE(send(values[1], 2)().is_done());
  pop(received_);
  pop(received_);
  EXPECT_EQ(wild, 1);
  EXPECT_EQ(exact, 2);
}

TEST_F(matching, engines__do_not_see_each_other) {
  lci::matching_engine_t queue = lci::alloc_matching_engine_x().matching_engine_type(
      lci::attr_matching_engine_type_t::queue)();
  EXPECT_EQ(queue.get_attr_matching_engine_type(), lci::attr_matching_engine_type_t::queue);
  barrier();
  int a = 1, b = 2, value = -1;
  EXPECT_TRUE(send(a, 1)().is_done());
  EXPECT_TRUE(send(b, 1).matching_engine(queue)().is_done());
  finish(recv(value, world().previous(), 1).matching_engine(queue)());
  EXPECT_EQ(value, 2);
  finish(recv(value, world().previous(), 1)());
  EXPECT_EQ(value, 1);
  barrier();
  lci::free_matching_engine(&queue);
  EXPECT_TRUE(queue.is_empty());
}

TEST_F(matching, insert__finds_the_oldest_opposite_and_no_message) {
  lci::matching_engine_t engine = lci::alloc_matching_engine();
  barrier();
  int message = 5, value = -1, a = 0, b = 0, c = 0;
  EXPECT_TRUE(send(message, 1).matching_engine(engine)().is_done());
  using side = lci::matching_entry_type_t;
  EXPECT_EQ(lci::matching_engine_insert(engine, 1, &a, side::recv), nullptr);
  EXPECT_EQ(lci::matching_engine_insert(engine, 1, &b, side::recv), nullptr);
  EXPECT_EQ(lci::matching_engine_insert(engine, 2, &c, side::send), nullptr) << "another key";
  EXPECT_EQ(lci::matching_engine_insert(engine, 1, &c, side::send), &a);
  EXPECT_EQ(lci::matching_engine_insert(engine, 1, &c, side::send), &b);
  EXPECT_EQ(lci::matching_engine_insert(engine, 2, &a, side::recv), &c);
  finish(recv(value, world().previous(), 1).matching_engine(engine)());
  EXPECT_EQ(value, 5);
  barrier();
  lci::free_matching_engine(&engine);
}

// Receives that are too small, by protocol and by who finds out.
class truncation : public testing::TestWithParam<size_at> {
 protected:
  void SetUp() override {
    size_ = bytes(GetParam());
    out_ = pattern(size_, 8);
    small_.assign(size_ / 2 + 16, 'g');
  }
  lci::post_recv_x too_small() {
    return lci::post_recv_x(world().previous(), small_.data(), size_ / 2, 4, cq_)
        .device(world().device);
  }
  lci::status_t send() {
    return insist(
        lci::post_send_x(world().next(), out_.data(), size_, 4, sent_).device(world().device));
  }
  // Both sizes are in the text, and not a byte was written.
  void expect_reported(const std::string& text) {
    EXPECT_NE(text.find(std::to_string(size_)), std::string::npos) << text;
    EXPECT_NE(text.find(std::to_string(size_ / 2)), std::string::npos) << text;
    EXPECT_EQ(std::string(small_.begin(), small_.end()), std::string(small_.size(), 'g'));
  }
  // The message is not lost: a receive with room gets it, and the sender's operation completes.
  void expect_still_there(const lci::status_t& sent) {
    std::vector<char> in(size_);
    const lci::status_t status =
        lci::post_recv_x(world().previous(), in.data(), size_, 4, lci::COMP_NULL)
            .device(world().device)();
    EXPECT_TRUE(status.is_done());
    EXPECT_EQ(difference(in.data(), size_, 8), "");
    if (sent.is_posted()) {
      EXPECT_TRUE(pop(sent_).is_done());
    }
    EXPECT_TRUE(stays_empty(cq_)) << "the receive that failed is not signalled";
  }
  std::size_t size_ = 0;
  std::vector<char> out_;
  std::vector<char> small_;
  owned_comp cq_{lci::alloc_cq()};
  owned_comp sent_{lci::alloc_cq()};
};

// From the moment the receive is there any progress may throw, also that inside a collective, so
// the ranks tell each other by messages that they are ready.
TEST_P(truncation, progress_finds_it) {
  inbox ready;
  std::string text;
  const auto wait_and_catch = [&text](auto holds) {
    while (!holds()) {
      const std::string thrown = text_thrown<lci::truncation_error>(&progress);
      if (thrown != "nothing thrown") text = thrown;
    }
  };
  EXPECT_TRUE(too_small()().is_posted());
  lci::status_t answer;
  wait_and_catch([&] {
    answer = lci::post_am_x(world().previous(), nullptr, 0, lci::COMP_NULL_RETRY, ready.rcomp())
                 .device(world().device)();
    return answer.is_done();
  });
  wait_and_catch([&] {
    const lci::status_t status = lci::cq_pop(ready.cq());
    if (status.is_done()) std::free(status.buffer);
    return status.is_done();
  });
  wait_and_catch([&] {
    answer =
        lci::post_send_x(world().next(), out_.data(), size_, 4, sent_).device(world().device)();
    return !answer.is_retry();
  });
  wait_and_catch([&] { return !text.empty(); });
  expect_reported(text);
  expect_still_there(answer);
  barrier();
}

TEST_P(truncation, the_post_finds_it) {
  const lci::status_t sent = send();
  barrier();
  linger();
  expect_reported(text_thrown<lci::truncation_error>([this] {
    too_small()();
    while (true) progress();
  }));
  expect_still_there(sent);
  barrier();
}

// It stays where it was: younger messages do not get in front of it.
TEST_P(truncation, the_message_keeps_its_place) {
  const lci::status_t sent = send();
  std::vector<char> younger = pattern(size_ / 2, 9);
  const lci::status_t second =
      insist(lci::post_send_x(world().next(), younger.data(), younger.size(), 4, sent_)
                 .device(world().device));
  barrier();
  linger();
  for (int i = 0; i < 3; ++i) EXPECT_THROW(too_small()(), lci::truncation_error);
  expect_still_there(sent);
  const lci::status_t status =
      lci::post_recv_x(world().previous(), small_.data(), size_ / 2, 4, lci::COMP_NULL)
          .device(world().device)();
  EXPECT_EQ(status.size, size_ / 2);
  EXPECT_EQ(difference(small_.data(), status.size, 9), "");
  if (second.is_posted()) {
    EXPECT_TRUE(pop(sent_).is_done());
  }
  barrier();
}

INSTANTIATE_TEST_SUITE_P(sizes, truncation,
                         testing::Values(size_at::inject, size_at::bcopy, size_at::kib_64),
                         [](const auto& param) { return std::string(name_of(param.param)); });

}  // namespace
}  // namespace interface_test
