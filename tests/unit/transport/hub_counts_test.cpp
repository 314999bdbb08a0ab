// The numbers of calls: both ends have to count the same ones.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "lci/boot/key_exchange.hpp"
#include "lci/transport/hub.hpp"
#include "lci/transport/url.hpp"
#include "tests/unit/transport/ends.hpp"

namespace lci::transports {
namespace {

using test::pair_ptr;
using test::run;

class hub_counts_test : public test::room_test {
 protected:
  // URLs by which a hub is not reached, though they name it.
  static std::string with_closed_port(const std::string& of) {
    url out = parse_url(of);
    hub was(test::patient());
    out.port = parse_url(was.bind()).port;
    return text_of(out);
  }
  static std::string with_another_secret(const std::string& of) {
    url out = parse_url(of);
    out.key = boot::make_secret();
    return text_of(out);
  }
};

// Beside a connection, since without one both ends count anew.
TEST_F(hub_counts_test, connect__one_of_which_the_peer_does_not_hear_is_not_counted) {
  hub a(test::patient()), b(test::patient());
  const std::string to_a = a.bind(), to_b = b.bind();
  std::vector<pair_ptr> held;
  const auto both_call = [&] {
    const pair_ptr at_a = a.connect(to_b), at_b = b.connect(to_a);
    ASSERT_TRUE(run({&a, &b}, [&] { return test::is_settled(at_a) && test::is_settled(at_b); }));
    ASSERT_EQ(at_a->now(), pair::state::connected) << at_a->why();
    ASSERT_EQ(at_a->name().number, at_b->name().number);
    test::put_a_word(at_a, at_b);
    held.insert(held.end(), {at_a, at_b});
  };
  ASSERT_NO_FATAL_FAILURE(both_call());
  for (const std::string& wrong : {with_closed_port(to_a), with_another_secret(to_a)}) {
    const pair_ptr lost = b.connect(wrong);
    ASSERT_TRUE(run({&a, &b}, [&] { return test::is_settled(lost); }));
    ASSERT_EQ(lost->now(), pair::state::closed);
    ASSERT_NO_FATAL_FAILURE(both_call()) << lost->why();
  }
}

// Two of which it does not hear, under way together.
TEST_F(hub_counts_test, connect__two_at_once_of_which_the_peer_does_not_hear_are_not_counted) {
  hub a(test::patient()), b(test::patient());
  const std::string to_a = a.bind(), wrong = with_another_secret(to_a);
  const pair_ptr first = b.connect(to_a);
  ASSERT_TRUE(run({&a, &b}, [&] { return test::is_settled(first); }));
  ASSERT_EQ(first->now(), pair::state::connected) << first->why();
  const pair_ptr second = b.connect(wrong), third = b.connect(wrong);
  ASSERT_TRUE(run({&a, &b}, [&] { return test::is_settled(second) && test::is_settled(third); }));
  EXPECT_EQ(third->name().number, 3u);
  EXPECT_EQ(b.connect(to_a)->name().number, 2u);
}

// Both call. The call that counts reaches nobody, and the other one was told to give way: both ends
// have heard of that number.
TEST_F(hub_counts_test, connect__one_that_gave_way_counts_at_both_ends) {
  static clock::time_point at;
  at = clock::time_point(std::chrono::hours(1));
  setup_options options;
  options.now = [] { return at; };
  hub one(options), other(options);
  hub &low = one.id() < other.id() ? one : other, &high = &low == &one ? other : one;
  const std::string to_low = low.bind(), to_high = high.bind();
  const pair_ptr first = high.connect(to_low);
  ASSERT_TRUE(run({&low, &high}, [&] { return test::is_settled(first); }));
  ASSERT_EQ(first->now(), pair::state::connected) << first->why();
  const pair_ptr same = low.connect(to_high);
  ASSERT_EQ(same->name().number, first->name().number);
  hub deaf(options);  // makes no progress
  url out = parse_url(to_high);
  out.port = parse_url(deaf.bind()).port;
  const pair_ptr at_low = low.connect(text_of(out)), at_high = high.connect(to_low);
  ASSERT_EQ(at_low->name().number, 2u);
  ASSERT_EQ(at_high->name().number, 2u);
  for (int i = 0; i < 1000; ++i) {
    low.progress();
    high.progress();
  }
  at += std::chrono::hours(1);
  ASSERT_TRUE(run({&low, &high},
                  [&] {
                    return at_low->now() == pair::state::closed &&
                           at_high->now() == pair::state::closed;
                  }))
      << at_low->describe() << ", " << at_high->describe();
  EXPECT_EQ(low.connect(to_high)->name().number, high.connect(to_low)->name().number)
      << at_low->why() << ", " << at_high->why();
}

// It was told the number, and has made nothing of it.
TEST_F(hub_counts_test, connect__one_that_the_peer_refuses_is_not_counted) {
  setup_options once = test::patient();
  once.uses = 1;
  once.key = "a secret that both know";
  hub a(once), b(once);
  const std::string to_a = a.bind(), to_b = b.bind();
  const pair_ptr first = b.connect(to_a);
  ASSERT_TRUE(run({&a, &b}, [&] { return test::is_settled(first); }));
  ASSERT_EQ(first->now(), pair::state::connected) << first->why();
  const pair_ptr refused = b.connect(to_a);
  ASSERT_TRUE(run({&a, &b}, [&] { return test::is_settled(refused); }));
  ASSERT_EQ(refused->now(), pair::state::closed);
  EXPECT_EQ(refused->name().number, 2u);
  EXPECT_EQ(b.connect(to_a)->name().number, 2u) << refused->why();
}

}  // namespace
}  // namespace lci::transports
