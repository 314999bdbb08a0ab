// How connections come to be, and what comes of them.
#include "lci/transport/hub.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <set>
#include <thread>

#include "lci/errors.hpp"
#include "lci/runtime/global.hpp"
#include "tests/support/no_more_descriptors.hpp"
#include "tests/support/sanitized.hpp"
#include "tests/unit/transport/ends.hpp"

namespace lci::transports {
namespace {

using test::ends;
using test::pair_ptr;
using test::put_a_word;
using test::run;
using testing::HasSubstr;

class hub_test : public test::room_test {};

std::size_t listed() {
  std::size_t n = 0;
  runtime::global().runtimes.for_each([&](runtime_impl_t&) { ++n; });
  return n;
}

// What a closed one says, and the type of its problem.
template <class Error>
std::string problem_of(const pair_ptr& one) {
  try {
    if (one->problem() != nullptr) std::rethrow_exception(one->problem());
  } catch (const Error& e) {
    return e.what();
  } catch (const std::exception& e) {
    return std::string("another type: ") + e.what();
  }
  return "none";
}

clock::time_point test_time;

setup_options with_test_clock() {
  test_time = clock::time_point(std::chrono::hours(1));
  setup_options out;
  out.now = [] { return test_time; };
  return out;
}

TEST_F(hub_test, connect__in_one_process_and_one_thread) {
  {
    ends e;
    e.connect();
    EXPECT_EQ(e.at_root->me(), 0);
    EXPECT_EQ(e.at_joiner->me(), 1);
    EXPECT_THAT(e.at_root->describe(), HasSubstr("1 peer over"));
    EXPECT_EQ(e.at_root->name().peer, e.joiner.id());
    EXPECT_EQ(listed(), 2u) << "free_comp() and others have to know their runtimes";
    put_a_word(e.at_joiner, e.at_root);
    put_a_word(e.at_root, e.at_joiner);
  }
  EXPECT_EQ(listed(), 0u);
}

TEST_F(hub_test, connect__both_ends_call_and_one_connection_comes_of_it) {
  // Whose id is lower is a matter of chance, and so is who makes progress first.
  for (int round = 0; round < 16; ++round) {
    hub a(test::patient()), b(test::patient());
    const std::string to_a = a.bind(), to_b = b.bind();
    const pair_ptr at_a = a.connect(to_b), at_b = b.connect(to_a);
    const std::vector<hub*> order = round % 2 == 0 ? std::vector{&a, &b} : std::vector{&b, &a};
    ASSERT_TRUE(run(order, [&] { return test::is_settled(at_a) && test::is_settled(at_b); }));
    ASSERT_EQ(at_a->now(), pair::state::connected) << at_a->why();
    ASSERT_EQ(at_b->now(), pair::state::connected) << at_b->why();
    EXPECT_NE(at_a->me(), at_b->me());
    EXPECT_EQ(at_a->me() == 1, a.id() < b.id()) << "the call of the lower id counts";
    put_a_word(at_a, at_b);
    EXPECT_EQ(a.accepted(), nullptr);
    EXPECT_EQ(b.accepted(), nullptr);
    EXPECT_EQ(listed(), 2u);
  }
}

TEST_F(hub_test, connect__finds_the_one_that_the_peer_has_made) {
  hub a(test::patient()), b(test::patient());
  const std::string to_a = a.bind(), to_b = b.bind();
  const pair_ptr at_a = a.connect(to_b);
  ASSERT_TRUE(run({&a, &b}, [&] { return test::is_settled(at_a); }));
  const pair_ptr at_b = b.connect(to_a);
  ASSERT_TRUE(run({&a, &b}, [&] { return test::is_settled(at_b); }));
  put_a_word(at_a, at_b);
  EXPECT_EQ(b.accepted(), nullptr) << "it was taken";
  // The next call means another one.
  const pair_ptr second = a.connect(to_b), second_too = b.connect(to_a);
  ASSERT_TRUE(
      run({&a, &b}, [&] { return test::is_settled(second) && test::is_settled(second_too); }));
  EXPECT_NE(second, at_a);
  put_a_word(second, second_too);
}

TEST_F(hub_test, connect__one_that_throws_is_not_counted) {
  // With it comes the one of undefined behaviour, which looks at memory by means of a pipe.
  if (lci::test::HAS_ADDRESS_SANITIZER) GTEST_SKIP() << "the sanitizer needs descriptors as well";
  hub a(test::patient()), b(test::patient());
  const std::string to_a = a.bind(), to_b = b.bind();
  std::string wrong = to_a;
  wrong.replace(wrong.find("127.0.0.1"), 9, "0.0.0.0");
  std::vector<pair_ptr> held;
  for (const char* before : {"no connection", "a connection"}) {
    EXPECT_THROW(b.connect(wrong), argument_error);
    {
      const lci::test::no_more_descriptors none;
      EXPECT_THROW(b.connect(to_a), backend_error);
    }
    EXPECT_EQ(b.under_way_now(), 0u);
    const pair_ptr at_a = a.connect(to_b), at_b = b.connect(to_a);
    ASSERT_TRUE(run({&a, &b}, [&] { return test::is_settled(at_a) && test::is_settled(at_b); }));
    ASSERT_EQ(at_a->name().number, at_b->name().number) << before << " was there";
    put_a_word(at_a, at_b);
    held.insert(held.end(), {at_a, at_b});
  }
}

TEST_F(hub_test, connect__again_after_a_close_at_once) {
  ends e;
  e.connect();
  const std::string url = e.root.bind();
  for (int i = 0; i < 20; ++i) {
    e.at_joiner->close();
    e.at_joiner = e.joiner.connect(url);
    pair_ptr next;
    ASSERT_TRUE(e.run_until([&] {
      if (next == nullptr) next = e.root.accepted();
      return next != nullptr && test::is_settled(e.at_joiner);
    })) << e.at_joiner->describe();
    ASSERT_EQ(e.at_joiner->now(), pair::state::connected) << e.at_joiner->why();
    EXPECT_EQ(e.at_root->now(), pair::state::closed);
    e.at_root = next;
    put_a_word(e.at_root, e.at_joiner);
  }
}

TEST_F(hub_test, connect__several_peers_of_one_hub) {
  hub root(test::patient());
  const std::string url = root.bind();
  std::vector<std::unique_ptr<hub>> joiners;
  std::vector<pair_ptr> theirs, ours;
  std::vector<hub*> all{&root};
  for (int i = 0; i < 8; ++i) {
    joiners.push_back(std::make_unique<hub>(test::patient()));
    all.push_back(joiners.back().get());
    theirs.push_back(joiners.back()->connect(url));
  }
  ASSERT_TRUE(run(all, [&] {
    while (pair_ptr one = root.accepted()) ours.push_back(one);
    return ours.size() == theirs.size() &&
           std::all_of(theirs.begin(), theirs.end(), test::is_settled);
  }));
  std::set<std::string> names;
  for (const pair_ptr& one : ours) {
    names.insert(one->name().peer);
    for (std::size_t i = 0; i < theirs.size(); ++i)
      if (joiners[i]->id() == one->name().peer) put_a_word(one, theirs[i]);
  }
  EXPECT_EQ(names.size(), ours.size());
}

TEST_F(hub_test, connect__many_in_one_process_without_a_thread) {
  constexpr std::size_t MANY = lci::test::IS_SANITIZED ? 60 : 300;
  const std::size_t threads = lci::test::thread_count();
  hub root(test::patient()), joiner(test::patient());
  const std::string url = root.bind();
  std::vector<pair_ptr> theirs, ours;
  for (std::size_t i = 0; i < MANY; ++i) theirs.push_back(joiner.connect(url));
  ASSERT_TRUE(run({&root, &joiner}, [&] {
    while (pair_ptr one = root.accepted()) ours.push_back(one);
    return ours.size() == MANY && std::all_of(theirs.begin(), theirs.end(), test::is_settled);
  }));
  EXPECT_EQ(lci::test::thread_count(), threads);
  for (const pair_ptr& one : ours)
    for (const pair_ptr& two : theirs)
      if (one->name().number == two->name().number && one->name().number % 10 == 0)
        put_a_word(one, two);
  for (const pair_ptr& one : theirs) ASSERT_EQ(one->now(), pair::state::connected) << one->why();
}

// Different hubs belong to different threads, and make and end runtimes at once.
TEST_F(hub_test, connect__in_several_threads_with_hubs_of_their_own) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([] {
      for (int round = 0; round < 8; ++round) {
        ends e;
        e.connect();
        put_a_word(e.at_root, e.at_joiner);
        comp_t one = alloc_sync_x().runtime(e.at_root->runtime())();
        free_comp(&one);  // looks at all runtimes
      }
    });
  for (std::thread& one : threads) one.join();
  EXPECT_EQ(listed(), 0u);
}

TEST_F(hub_test, bind__another_key_is_refused_without_a_word) {
  ends e;
  const std::string url = e.root.bind();
  std::string other = url;
  char& digit = other[other.find("&k=") + 3];
  digit = digit == '0' ? '1' : '0';
  e.at_joiner = e.joiner.connect(other);
  ASSERT_TRUE(e.run_until([&] { return test::is_settled(e.at_joiner); }));
  EXPECT_THAT(problem_of<peer_failure_error>(e.at_joiner), HasSubstr("it hung up"));
  EXPECT_THAT(e.at_joiner->why(), HasSubstr("agreeing on keys"));
  EXPECT_EQ(e.root.accepted(), nullptr);
  e.connect();  // others are not concerned
}

TEST_F(hub_test, bind__id_of_another_hub_is_refused) {
  ends e;
  std::string url = e.root.bind();
  char& digit = url[url.find("&id=") + 4];
  digit = digit == '0' ? '1' : '0';
  e.at_joiner = e.joiner.connect(url);
  ASSERT_TRUE(e.run_until([&] { return test::is_settled(e.at_joiner); }));
  EXPECT_THAT(problem_of<backend_error>(e.at_joiner), HasSubstr("of another transport"));
}

TEST_F(hub_test, bind__as_often_as_it_may_be_used) {
  setup_options options = test::patient();
  options.uses = 2;
  ends e(options);
  const std::string url = e.root.bind();
  for (int i = 0; i < 3; ++i) {
    const pair_ptr one = e.joiner.connect(url);
    ASSERT_TRUE(e.run_until([&] { return test::is_settled(one); }));
    EXPECT_EQ(one->now() == pair::state::connected, i < 2);
    if (i < 2) continue;
    EXPECT_THAT(problem_of<backend_error>(one), HasSubstr("used as often as it may be"));
  }
  while (e.root.accepted() != nullptr) {
  }
  e.connect();  // by a new URL
}

TEST_F(hub_test, bind__time_of_a_url_is_over) {
  setup_options options = with_test_clock();
  options.valid_s = 60;
  ends e(options);
  const std::string url = e.root.bind();
  EXPECT_THAT(url, HasSubstr("&until="));
  test_time += std::chrono::seconds(59);
  const pair_ptr first = e.joiner.connect(url);
  ASSERT_TRUE(e.run_until([&] { return test::is_settled(first); }));
  EXPECT_EQ(first->now(), pair::state::connected) << first->why();
  test_time += std::chrono::seconds(2);
  const pair_ptr second = e.joiner.connect(url);
  ASSERT_TRUE(e.run_until([&] { return test::is_settled(second); }));
  EXPECT_THAT(problem_of<backend_error>(second), HasSubstr("the time of the URL is over"));
}

TEST_F(hub_test, bind__common_secret_is_in_no_url) {
  setup_options options = test::patient();
  options.key = "both have been told this";
  {
    ends e(options, options);
    EXPECT_EQ(e.root.bind().find("k="), std::string::npos);
    e.connect();
  }
  ends e(options);
  EXPECT_THROW(e.joiner.connect(e.root.bind()), argument_error) << "it has no secret";
}

TEST_F(hub_test, options__nonsense_is_refused_by_name) {
  const auto refusal = [](const std::function<void(setup_options&)>& change) {
    setup_options options = test::patient();
    change(options);
    try {
      hub one(options);
      one.bind();
    } catch (const std::exception& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  EXPECT_THAT(refusal([](auto& o) { o.address = "0.0.0.0"; }), HasSubstr("every address"));
  EXPECT_THAT(refusal([](auto& o) { o.address = "here"; }), HasSubstr("\"here\""));
  EXPECT_THAT(refusal([](auto& o) { o.port = 70000; }), HasSubstr("70000"));
  EXPECT_THAT(refusal([](auto& o) { o.providers = {"smoke"}; }), HasSubstr("\"smoke\""));
  EXPECT_THAT(refusal([](auto& o) { o.key = "short"; }), HasSubstr("the key has 5 bytes"));
  // Before it listens, and where it only calls.
  setup_options with_short_key = test::patient();
  with_short_key.key = "short";
  EXPECT_THROW(hub{with_short_key}, argument_error);
  EXPECT_THAT(refusal([](auto& o) { o.timeout_s = 0; }), HasSubstr("timeout_s is 0"));
  EXPECT_THAT(refusal([](auto& o) { o.uses = -2; }), HasSubstr("uses is -2"));
  EXPECT_THAT(refusal([](auto& o) { o.address = "192.0.2.1"; }), HasSubstr("listen at 192.0.2.1"));
}

TEST_F(hub_test, connect__nobody_listens) {
  std::string url;
  {
    hub gone(test::patient());
    url = gone.bind();
  }
  hub joiner(test::patient());
  const pair_ptr one = joiner.connect(url);
  ASSERT_TRUE(run({&joiner}, [&] { return test::is_settled(one); }));
  EXPECT_THAT(problem_of<peer_failure_error>(one), HasSubstr("Connection refused"));
  EXPECT_THROW(joiner.connect("http://127.0.0.1/"), argument_error);
  const std::string own = joiner.bind();
  EXPECT_THROW(joiner.connect(own), argument_error);
}

TEST_F(hub_test, connect__who_answers_nothing_is_given_up_in_time) {
  setup_options options = with_test_clock();
  hub silent(test::patient()), joiner(options);
  const pair_ptr one = joiner.connect(silent.bind());  // it makes no progress
  ASSERT_FALSE(test::is_settled(one));
  for (int i = 0; i < 100; ++i) joiner.progress();
  test_time += std::chrono::seconds(11);
  ASSERT_TRUE(run({&joiner}, [&] { return test::is_settled(one); }));
  EXPECT_THAT(problem_of<peer_failure_error>(one), HasSubstr("not done within timeout_s, "));
}

TEST_F(hub_test, connect__providers_in_common) {
  setup_options shm = test::patient(), ofi = test::patient();
  shm.providers = {"shm"};
  ofi.providers = {"ofi"};
  {
    ends e(shm, ofi);
    e.at_joiner = e.joiner.connect(e.root.bind());
    ASSERT_TRUE(e.run_until([&] { return test::is_settled(e.at_joiner); }));
    EXPECT_THAT(e.at_joiner->why(), HasSubstr("allow no network in common"));
    EXPECT_EQ(listed(), 0u);
  }
  {
    ends e(shm, test::patient());
    e.connect();
    EXPECT_THAT(e.at_joiner->describe(), HasSubstr("over shm"));
  }
}

// A word each way by that network alone; "" or why it cannot be used here.
std::string words_over(const std::string& network) {
  setup_options options = test::patient();
  options.providers = {network};
  ends e(options, options);
  e.at_joiner = e.joiner.connect(e.root.bind());
  const bool is_over = e.run_until([&] {
    if (e.at_root == nullptr) e.at_root = e.root.accepted();
    return test::is_settled(e.at_joiner) &&
           (e.at_root || e.at_joiner->now() == pair::state::closed);
  });
  EXPECT_TRUE(is_over) << e.at_joiner->describe();
  if (!is_over) return "the set-up hangs";
  if (e.at_joiner->now() == pair::state::closed) return e.at_joiner->why();
  EXPECT_THAT(e.at_joiner->describe(), HasSubstr("over " + network));
  EXPECT_THAT(e.at_joiner->describe(), HasSubstr("shm: not allowed here")) << "and why not by it";
  put_a_word(e.at_joiner, e.at_root);
  put_a_word(e.at_root, e.at_joiner);
  return "";
}

TEST_F(hub_test, connect__over_libfabric) {
  if (const std::string why = words_over("ofi"); !why.empty()) GTEST_SKIP() << why;
}

TEST_F(hub_test, connect__over_verbs) {
  if (const std::string why = words_over("ibv"); !why.empty()) GTEST_SKIP() << why;
}

TEST_F(hub_test, end__closes_what_is_there) {
  auto root = std::make_unique<hub>(test::patient());
  hub joiner(test::patient());
  const pair_ptr theirs = joiner.connect(root->bind());
  pair_ptr ours;
  ASSERT_TRUE(run({root.get(), &joiner}, [&] {
    if (ours == nullptr) ours = root->accepted();
    return ours != nullptr && test::is_settled(theirs);
  }));
  const pair_ptr untaken = joiner.connect(root->bind());
  ASSERT_TRUE(run({root.get(), &joiner}, [&] { return test::is_settled(untaken); }));
  root.reset();
  EXPECT_EQ(ours->now(), pair::state::closed);
  EXPECT_EQ(ours->problem(), nullptr);
  ASSERT_TRUE(run({&joiner}, [&] {
    return theirs->now() == pair::state::closed && untaken->now() == pair::state::closed;
  }));
  EXPECT_EQ(theirs->problem(), nullptr) << "an orderly end";
}

}  // namespace
}  // namespace lci::transports
