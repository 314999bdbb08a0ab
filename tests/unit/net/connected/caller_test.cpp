// First contact and the list of devices, with connections and queues that do nothing.
#include "lci/net/connected/caller.hpp"

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "lci/errors.hpp"
#include "lci/net/connected/call_pace.hpp"
#include "lci/net/connected/device_list.hpp"
#include "lci/net/connected/pending_connects.hpp"

namespace lci::net::connected {
namespace {

constexpr int RANKS = 8;

struct quiet_connection {
  enum class stage { calling, ready };
  int rank = -1;
  stage now = stage::calling;
  call_pace pace;
  stage state() const noexcept { return now; }
};

struct quiet_queues {
  explicit quiet_queues(int index) : device(index) {}
  int index() const noexcept { return device; }
  quiet_connection* find(int rank) {
    auto& one = all[static_cast<std::size_t>(rank)];
    return one ? &*one : nullptr;
  }
  quiet_connection& make_connection(int rank) {
    if (rank == refused) {
      ++refusals;
      throw backend_error("no queue pair");
    }
    quiet_connection& made = all[static_cast<std::size_t>(rank)].emplace();
    made.rank = rank;
    return made;
  }
  void request(int rank) { pending_.add(rank); }
  std::vector<int> take_pending() { return pending_.take(); }
  void give_up(int rank, const char* why) { unreachable.emplace_back(rank, why); }

  int device;
  int refused = -1, refusals = 0;
  std::vector<std::pair<int, const char*>> unreachable;
  std::array<std::optional<quiet_connection>, RANKS> all;
  pending_connects pending_{RANKS};
};

class caller_test : public testing::Test {
 protected:
  caller_test() {
    calls_.add_queues(second_);  // they may come in any order
    calls_.add_queues(first_);
  }
  std::vector<int> called() {
    std::vector<int> out;
    calls_.for_each_called(
        [&](const quiet_connection& on, const quiet_queues&) { out.push_back(on.rank); });
    return out;
  }
  using calls = caller<quiet_connection, quiet_queues>;
  quiet_queues first_{0}, second_{2};
  calls calls_{"test", 1u << 30};  // for whom no test is slow enough
  calls impatient_{"test", 0};
};

TEST_F(caller_test, queues_at__those_that_are_made) {
  EXPECT_EQ(calls_.queues_at(0), &first_);
  EXPECT_EQ(calls_.queues_at(1), nullptr);
  EXPECT_EQ(calls_.queues_at(2), &second_);
  EXPECT_EQ(calls_.queues_at(1000), nullptr) << "a peer may say anything";
}

TEST_F(caller_test, start_pending__of_all_ports_and_none_twice) {
  first_.request(1);
  second_.request(2);
  calls_.start_pending();
  EXPECT_TRUE(called().empty()) << "nobody has said so";
  calls_.requests().raise();
  EXPECT_TRUE(calls_.polls().is_due());
  calls_.start_pending();
  EXPECT_EQ(called(), (std::vector<int>{1, 2}));
  first_.request(1);
  calls_.requests().raise();
  calls_.start_pending();
  EXPECT_EQ(called(), (std::vector<int>{1, 2}));
}

TEST_F(caller_test, start_pending__what_cannot_be_granted_stays_and_keeps_no_other_back) {
  first_.refused = 1;
  for (const int rank : {1, 3}) first_.request(rank);
  second_.request(2);
  calls_.requests().raise();
  calls_.start_pending();
  EXPECT_EQ(called(), (std::vector<int>{3, 2}));
  EXPECT_EQ(first_.refusals, 1);
  first_.refused = -1;
  calls_.start_pending();
  EXPECT_EQ(called(), (std::vector<int>{3, 2, 1}));
}

TEST_F(caller_test, repeat__whoever_is_due_until_it_has_answered) {
  quiet_connection& one = calls_.enter(first_, 1);
  quiet_connection& other = calls_.enter(second_, 2);
  std::vector<std::pair<int, int>> made;
  const auto call = [&](quiet_connection& on, const quiet_queues& from) {
    made.emplace_back(on.rank, from.index());
    on.pace.wait_from(base::cpu_ticks());
    on.pace.count();
  };
  calls_.repeat(call);
  EXPECT_EQ(made, (std::vector<std::pair<int, int>>{{1, 0}, {2, 2}}));
  one.now = quiet_connection::stage::ready;
  EXPECT_EQ(called(), std::vector<int>{2});
  calls_.repeat([](const quiet_connection&, const quiet_queues&) {});
  EXPECT_TRUE(calls_.polls().is_due());
  other.now = quiet_connection::stage::ready;
  calls_.repeat(call);
  EXPECT_FALSE(calls_.polls().is_due());
}

// What fails now may do so because memory is short; so often and so long, it will not end.
TEST_F(caller_test, start_pending__refused_too_often_in_a_row_gives_that_rank_up_once) {
  impatient_.add_queues(first_);
  first_.refused = 1;
  for (const int rank : {1, 3}) first_.request(rank);
  impatient_.requests().raise();
  for (std::uint32_t i = 0; i < calls::FAILURES; ++i) {
    EXPECT_TRUE(first_.unreachable.empty()) << i;
    impatient_.start_pending();
  }
  ASSERT_EQ(first_.unreachable.size(), 1u);
  EXPECT_EQ(first_.unreachable[0].first, 1);
  EXPECT_STREQ(first_.unreachable[0].second, "no connection can be made: no queue pair");
  EXPECT_NE(first_.find(3), nullptr);
  for (int i = 0; i < 100; ++i) {
    first_.request(1);
    impatient_.requests().raise();
    impatient_.start_pending();
  }
  EXPECT_EQ(first_.refusals, static_cast<int>(calls::FAILURES)) << "it is not tried any more";
  EXPECT_EQ(first_.unreachable.size(), 1u);
}

TEST_F(caller_test, start_pending__refused_often_in_a_short_time_goes_on) {
  first_.refused = 1;
  first_.request(1);
  calls_.requests().raise();
  for (int i = 0; i < 1000; ++i) calls_.start_pending();
  EXPECT_EQ(first_.refusals, 1000);
  EXPECT_TRUE(first_.unreachable.empty());
  first_.refused = -1;
  calls_.start_pending();
  EXPECT_EQ(called(), std::vector<int>{1});
}

TEST_F(caller_test, attempt__only_failures_of_one_step_in_a_row_count) {
  impatient_.add_queues(first_);
  impatient_.enter(first_, 1);
  const auto fail = [] { throw backend_error("no address handle"); };
  const auto fail_often = [&](calls::step what) {
    for (std::uint32_t i = 1; i < calls::FAILURES; ++i)
      EXPECT_FALSE(impatient_.attempt(what, first_, 1, fail));
  };
  fail_often(calls::step::call);
  EXPECT_TRUE(impatient_.attempt(calls::step::call, first_, 1, [] {}));
  fail_often(calls::step::call);
  fail_often(calls::step::answer);
  EXPECT_TRUE(impatient_.attempt(calls::step::call, first_, 1, [] {}));
  EXPECT_TRUE(first_.unreachable.empty());
  EXPECT_FALSE(impatient_.attempt(calls::step::answer, first_, 1, fail));
  EXPECT_EQ(first_.unreachable.size(), 1u);
  EXPECT_FALSE(impatient_.attempt(calls::step::call, first_, 1, [] { ADD_FAILURE(); }));
}

TEST_F(caller_test, attempt__fails_with_one_that_is_connected_all_the_same) {
  impatient_.add_queues(first_);
  impatient_.enter(first_, 1).now = quiet_connection::stage::ready;
  for (std::uint32_t i = 0; i < 2 * calls::FAILURES; ++i)
    impatient_.attempt(calls::step::answer, first_, 1, [] { throw backend_error("nothing"); });
  EXPECT_TRUE(first_.unreachable.empty());
}

TEST_F(caller_test, repeat__one_that_cannot_be_called_keeps_no_other_back) {
  calls_.enter(first_, 1);
  calls_.enter(second_, 2);
  std::vector<int> reached;
  calls_.repeat([&](const quiet_connection& on, const quiet_queues&) {
    if (on.rank == 1) throw backend_error("no address handle");
    reached.push_back(on.rank);
  });
  EXPECT_EQ(reached, std::vector<int>{2});
}

TEST(device_list, get__makes_each_once_and_refuses_what_is_no_device) {
  device_list<quiet_queues> devices("test");
  int made = 0;
  const auto get = [&](int device) -> quiet_queues& {
    return devices.get(device, [&] {
      ++made;
      return std::make_unique<quiet_queues>(device);
    });
  };
  quiet_queues& first = get(63);
  quiet_queues& last = get(1023);
  EXPECT_EQ(&get(63), &first);
  EXPECT_EQ(&get(1023), &last);
  get(0);
  EXPECT_EQ(made, 3);
  try {
    get(1024);
    FAIL() << "there are no more";
  } catch (const backend_error& problem) {
    EXPECT_NE(std::string(problem.what()).find("at most 1024 devices"), std::string::npos)
        << problem.what();
  }
  EXPECT_THROW(get(-1), backend_error);
  std::vector<int> seen;
  devices.for_each([&](const quiet_queues& one) { seen.push_back(one.device); });
  EXPECT_EQ(seen, (std::vector<int>{0, 63, 1023}));
  devices.until([&](const quiet_queues&) {
    seen.push_back(-1);
    return true;
  });
  EXPECT_EQ(seen, (std::vector<int>{0, 63, 1023, -1}));
}

TEST(device_list, get__one_that_could_not_be_made_is_tried_again) {
  device_list<quiet_queues> devices("test");
  EXPECT_THROW(
      devices.get(1, []() -> std::unique_ptr<quiet_queues> { throw backend_error("no queue"); }),
      backend_error);
  devices.for_each([](const quiet_queues&) { ADD_FAILURE(); });
  EXPECT_EQ(devices.get(1, [] { return std::make_unique<quiet_queues>(1); }).device, 1);
}

TEST(device_list, request__on_the_first_unless_one_knows_that_rank) {
  device_list<quiet_queues> devices("test");
  devices.request(1);
  quiet_queues& low = devices.get(3, [] { return std::make_unique<quiet_queues>(3); });
  quiet_queues& high = devices.get(5, [] { return std::make_unique<quiet_queues>(5); });
  devices.request(1);
  EXPECT_EQ(low.take_pending(), std::vector<int>{1});
  high.make_connection(1);
  devices.request(1);
  EXPECT_TRUE(low.take_pending().empty());
  EXPECT_TRUE(high.take_pending().empty());
}

}  // namespace
}  // namespace lci::net::connected
