// Control messages, ends, and peers that know the secret and break the rules.
#include "lci/transport/pair.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>

#include "lci/errors.hpp"
#include "lci/runtime/runtime.hpp"
#include "tests/support/seed.hpp"
#include "tests/unit/transport/ends.hpp"

namespace lci::transports {
namespace {

using test::ends;
using test::pair_ptr;
using testing::HasSubstr;

class pair_test : public test::room_test {};

// Counts what a pair asks of it.
struct counting_owner final : pair_owner {
  const setup_options& options() const noexcept override { return options_; }
  const global_attr_t& defaults() const noexcept override { return defaults_; }
  const boot::identity& self() const noexcept override { return self_; }
  clock::time_point now() const noexcept override { return clock::now(); }
  void watch(pair&, int, bool) override { ++calls; }
  void unwatch(int) noexcept override { ++calls; }
  void is_settled(pair&) noexcept override { ++settled; }
  void forget(pair&) noexcept override { ++calls; }
  setup_options options_;
  global_attr_t defaults_;
  boot::identity self_;
  int calls = 0, settled = 0;
};

// Its owner may have ended by then, or be in use by another thread.
TEST_F(pair_test, closed__its_owner_is_left_alone) {
  counting_owner owner;
  auto one = std::make_shared<pair>(static_cast<pair_owner&>(owner), pair_name{"peer", 1});
  one->close();
  EXPECT_EQ(owner.settled, 1);
  one.reset();
  EXPECT_EQ(owner.calls, 0);
  EXPECT_EQ(owner.settled, 1);
}

TEST_F(pair_test, tell__in_order_both_ways_up_to_the_largest) {
  ends e;
  e.connect();
  std::vector<std::string> at_root, at_joiner;
  e.at_root->on_message = [&](std::string_view text) { at_root.emplace_back(text); };
  e.at_joiner->on_message = [&](std::string_view text) { at_joiner.emplace_back(text); };
  const std::string large(control_stream::MOST_BODY, 'l');
  ASSERT_TRUE(e.at_root->tell(""));
  ASSERT_TRUE(e.at_root->tell(large));
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(e.at_joiner->tell(std::to_string(i)));
  ASSERT_TRUE(e.run_until([&] { return at_root.size() == 100 && at_joiner.size() == 2; }));
  EXPECT_EQ(at_joiner, (std::vector<std::string>{"", large}));
  for (int i = 0; i < 100; ++i) EXPECT_EQ(at_root[static_cast<std::size_t>(i)], std::to_string(i));
  EXPECT_THROW(e.at_root->tell(large + "x"), argument_error);
}

TEST_F(pair_test, tell__is_limited_while_the_peer_does_not_read) {
  ends e;
  e.connect();
  std::size_t got = 0, told = 0;
  e.at_joiner->on_message = [&](std::string_view) { ++got; };
  const std::string text(50'000, 'x');
  while (e.at_root->tell(text)) ASSERT_LT(++told, 10'000u);
  EXPECT_TRUE(e.at_root->wants_write());
  ASSERT_TRUE(e.run_until([&] { return got == told; }));
  EXPECT_FALSE(e.at_root->wants_write());
  EXPECT_TRUE(e.at_root->tell(text));
}

TEST_F(pair_test, tell__wakes_the_descriptor_of_the_peer_and_then_it_is_quiet) {
  ends e;
  e.connect();
  bool got = false;
  e.at_joiner->on_message = [&](std::string_view) { got = true; };
  pollfd set{e.joiner.fd(), POLLIN, 0};
  while (e.joiner.progress() || e.root.progress()) {
  }
  ASSERT_TRUE(e.at_root->tell("wake"));
  EXPECT_EQ(::poll(&set, 1, 10'000), 1);
  ASSERT_TRUE(e.run_until([&] { return got; }));
  EXPECT_EQ(::poll(&set, 1, 0), 0);
}

TEST_F(pair_test, close__is_told_and_is_no_failure) {
  for (const bool by_root : {false, true}) {
    ends e;
    e.connect();
    test::put_a_word(e.at_joiner, e.at_root);
    pair_ptr &closer = by_root ? e.at_root : e.at_joiner,
             &other = by_root ? e.at_joiner : e.at_root;
    ASSERT_TRUE(closer->tell("the last word"));
    std::string got;
    other->on_message = [&](std::string_view text) { got = text; };
    closer->close();
    EXPECT_EQ(closer->now(), pair::state::closed);
    EXPECT_TRUE(closer->runtime().is_empty());
    ASSERT_TRUE(e.run_until([&] { return other->now() == pair::state::closed; }));
    EXPECT_EQ(got, "the last word");
    EXPECT_EQ(other->problem(), nullptr) << other->why();
    EXPECT_THAT(other->why(), HasSubstr("closed the connection"));
    EXPECT_FALSE(other->runtime().is_empty()) << "until its user has ended what it has";
    EXPECT_THROW(other->tell("hello?"), argument_error);
    other->close();
    EXPECT_TRUE(other->runtime().is_empty());
    EXPECT_THAT(other->why(), HasSubstr("the peer has closed")) << "the first reason stays";
  }
}

// The peer has left, met or not: a post to it ends with an error, whichever network it is.
TEST_F(pair_test, close__posts_to_a_peer_that_has_left_end) {
  for (const bool have_met : {false, true}) {
    ends e;
    e.connect();
    if (have_met) test::put_a_word(e.at_joiner, e.at_root);
    e.at_root->close();
    ASSERT_TRUE(e.run_until([&] { return e.at_joiner->now() == pair::state::closed; }));
    const runtime_impl_t& runtime = *e.at_joiner->runtime().p_impl;
    const auto move = [&] {
      test::make_progress(e.at_joiner);
      return false;
    };
    EXPECT_TRUE(lci::test::move_until(move, [&] { return runtime.core.peers.has_ended(0); }))
        << have_met;
    std::uint64_t word = 0;
    comp_t done = alloc_sync_x().runtime(e.at_joiner->runtime())();
    EXPECT_THROW(post_put_x(0, &word, sizeof word, done, 0, rmr_t())
                     .runtime(e.at_joiner->runtime())
                     .device(e.at_joiner->device())(),
                 peer_failure_error);
    free_comp(&done);
  }
}

// What has not completed is dropped, and the peer, which makes no progress, is not waited for.
TEST_F(pair_test, close__with_operations_that_wait_for_the_peer) {
  for (const char* network : {"shm", "ofi", "ibv"}) {
    setup_options options = test::patient();
    options.providers = {network};
    ends e(options, options);
    e.at_joiner = e.joiner.connect(e.root.bind());
    ASSERT_TRUE(e.run_until([&] {
      if (e.at_root == nullptr) e.at_root = e.root.accepted();
      return e.at_joiner->now() == pair::state::closed ||
             (e.at_root && test::is_settled(e.at_joiner));
    }));
    if (e.at_joiner->now() == pair::state::closed) continue;  // there is no such network here
    comp_t arrived = alloc_cq_x().runtime(e.at_root->runtime())();
    comp_t too = alloc_cq_x().runtime(e.at_joiner->runtime())();
    const rcomp_t number = register_rcomp_x(arrived).runtime(e.at_root->runtime())();
    ASSERT_EQ(register_rcomp_x(too).runtime(e.at_joiner->runtime())(), number);
    std::vector<char> large(4 << 20);
    comp_t done = alloc_cq_x().runtime(e.at_joiner->runtime())();
    status_t status;
    do {
      status = post_am_x(0, large.data(), large.size(), done, number)
                   .runtime(e.at_joiner->runtime())
                   .device(e.at_joiner->device())();
      test::make_progress(e.at_joiner);
      if (status.is_retry()) test::make_progress(e.at_root);  // they have to meet
    } while (status.is_retry());
    ASSERT_TRUE(status.is_posted());
    e.at_joiner->close();
    EXPECT_TRUE(cq_pop(done).is_retry()) << "it is dropped";
    free_comp(&done);
    free_comp(&too);
    ASSERT_TRUE(e.run_until([&] { return e.at_root->now() == pair::state::closed; }));
    e.at_root->close();
    free_comp(&arrived);
  }
}

TEST_F(pair_test, close__in_every_step_of_a_set_up) {
  for (int step = 0; step < 12; ++step) {
    for (const bool by_root : {false, true}) {
      ends e;
      const pair_ptr one = e.joiner.connect(e.root.bind());
      pair_ptr other;
      for (int i = 0; i < step; ++i) {
        e.root.progress();
        e.joiner.progress();
        usleep(10);
      }
      if (by_root) {
        other = e.root.accepted();
        if (other == nullptr) continue;
        other->close();
      } else {
        one->close();
      }
      EXPECT_TRUE(e.run_until([&] {
        if (other == nullptr) other = e.root.accepted();
        return one->now() == pair::state::closed &&
               (other == nullptr || other->now() == pair::state::closed);
      }));
    }
  }
}

// A peer that knows the secret and says what it likes.
class rude_peer {
 public:
  rude_peer(hub& root, const std::string& text, const std::string& id = {}) : to_(parse_url(text)) {
    const boot::job_key key(to_.key);
    const boot::key_exchange exchange;
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_port = htons(static_cast<std::uint16_t>(to_.port));
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    lci::base::descriptor fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(::connect(fd.get(), reinterpret_cast<sockaddr*>(&at), sizeof at), 0);
    const std::string hello = exchange.hello(key);
    EXPECT_GT(::send(fd.get(), hello.data(), hello.size(), 0), 0);
    std::string answer(boot::key_exchange::MESSAGE, '\0');
    test::run({&root}, [&] {
      return ::recv(fd.get(), answer.data(), answer.size(), MSG_DONTWAIT | MSG_PEEK) ==
             static_cast<ssize_t>(answer.size());
    });
    EXPECT_GT(::recv(fd.get(), answer.data(), answer.size(), 0), 0);
    auto seal = exchange.open_answer(key, answer);
    EXPECT_TRUE(seal);
    stream.emplace(std::move(fd), std::move(*seal));
    stream->put(frame_type::join, join_words{id.empty() ? self.id() : id, to_.id, 1}.text());
    stream->flush();
  }
  void say(frame_type type, std::string_view body) {
    stream->put(type, body);
    stream->flush();
  }
  void settle(std::string_view providers) {
    say(frame_type::settings,
        self.show(stream->seal(), boot::sealed_stream::side::joiner).append(providers));
  }
  const boot::identity self;
  std::optional<control_stream> stream;

 private:
  url to_;
};

TEST_F(pair_test, progress__peer_that_says_nonsense_ends_itself_alone) {
  hub root(test::patient());
  const std::string url = root.bind();
  auto random = lci::test::seeded(12);
  std::string introduction;
  for (int i = 0; i < 600; ++i) {
    rude_peer peer(root, url);
    for (int frames = 0; frames < 4; ++frames) {
      static constexpr const char* BODIES[] = {"",           "shm,ofi",        "shm",
                                               "1 any 5 - ", "ofi xyz",        "- why",
                                               "\xff",       "1 any 99 x.y z", "5 shm 1 -"};
      std::string body = BODIES[random() % std::size(BODIES)];
      if (random() % 4 == 0) body += std::string(random() % 60'000, static_cast<char>(random()));
      if (i % 3 != 0 && frames == 0)
        peer.settle(i % 3 == 1 ? "" : body);
      else
        peer.say(i % 2 == 0 ? frame_type::round : static_cast<frame_type>(random() % 11 + 1), body);
    }
    for (int k = 0; k < 4; ++k) root.progress();
    ASSERT_EQ(root.accepted(), nullptr) << "it has shown no network";
  }
  for (int k = 0; k < 100; ++k) root.progress();
  hub joiner(test::patient());
  const pair_ptr one = joiner.connect(url);
  ASSERT_TRUE(test::run({&root, &joiner}, [&] { return test::is_settled(one); }));
  EXPECT_EQ(one->now(), pair::state::connected) << one->why();
}

// It knows the secret of one URL, and takes the name of the hub that is being called.
TEST_F(pair_test, settle__impostor_gets_no_connection_that_was_meant_for_another) {
  // Which call counts is a matter of the ids.
  bool has_been_taken = false, has_been_turned_away = false;
  for (int round = 0; round < 100 && !(has_been_taken && has_been_turned_away); ++round) {
    hub caller(test::patient()), wanted(test::patient());
    const std::string url = caller.bind();
    const pair_ptr one = caller.connect(wanted.bind());  // which makes no progress
    rude_peer impostor(caller, url, wanted.id());
    impostor.settle("");
    const bool is_taken = wanted.id() < caller.id();
    (is_taken ? has_been_taken : has_been_turned_away) = true;
    const auto move = [&] {
      caller.progress();
      return false;
    };
    if (is_taken) {
      EXPECT_TRUE(lci::test::move_until(move, [&] { return one->now() == pair::state::closed; }));
    }
    for (int i = 0; i < 1000 && !is_taken; ++i) {
      caller.progress();
      usleep(100);
    }
    EXPECT_EQ(one->now(), is_taken ? pair::state::closed : pair::state::connecting);
    EXPECT_EQ(one->why().find("is not the transport") != std::string::npos, is_taken) << one->why();
    EXPECT_EQ(caller.accepted(), nullptr);
    one->close();
  }
  EXPECT_TRUE(has_been_taken && has_been_turned_away);
}

TEST_F(pair_test, progress__lost_connection_is_a_typed_error_at_once) {
  ends e;
  e.connect();
  test::put_a_word(e.at_root, e.at_joiner);
  ASSERT_EQ(::shutdown(e.at_joiner->fd(), SHUT_RDWR), 0);
  ASSERT_TRUE(e.run_until([&] {
    return e.at_joiner->now() == pair::state::closed && e.at_root->now() == pair::state::closed;
  }));
  for (const pair_ptr& one : {e.at_joiner, e.at_root}) {
    ASSERT_NE(one->problem(), nullptr);
    EXPECT_THROW(std::rethrow_exception(one->problem()), peer_failure_error);
    EXPECT_THROW(
        {
          for (int i = 0; i < 1000; ++i) test::make_progress(one);
        },
        peer_failure_error)
        << "its runtime knows it too";
    one->close();
  }
}

}  // namespace
}  // namespace lci::transports
