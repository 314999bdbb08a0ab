// First contact over datagrams that get lost, come twice, late and out of order, between queues
// that cannot always be made.
#include "lci/net/connected/connector.hpp"

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <random>
#include <vector>

#include "lci/errors.hpp"
#include "lci/net/connected/connection.hpp"
#include "tests/support/failing_new/failing_new.hpp"
#include "tests/unit/net/connected/listener.hpp"

namespace lci::net::connected {
namespace {

using stage = connection::stage;
constexpr int MEETING = 3;  // ranks

struct numbered_connection : connection {
  numbered_connection(int rank, int n) : connection(rank), number(n) {}
  const int number;  // ours
  int peer = 0;      // theirs; 0: not known
};

struct test_hello {
  std::uint64_t to = 0, from = 0;
  int rank = -1;
  std::uint32_t device = 0;
  std::uint8_t flags = 0;
  int number = 0, echo = 0;
};
struct test_contact {};

class callable_queues {
 public:
  using connection = numbered_connection;
  explicit callable_queues(int index, connect_requests& requests)
      : index_(index), requests_(requests) {}
  int index() const noexcept { return index_; }
  numbered_connection* find(int rank) noexcept {
    return all_[static_cast<std::size_t>(rank)].get();
  }
  numbered_connection& make_connection(int rank) {
    if (refusals > 0 && refusals-- > 0) throw backend_error("no queue pair");
    static int last = 0;
    auto& one = all_[static_cast<std::size_t>(rank)];
    EXPECT_EQ(one, nullptr) << "a second connection to one rank";
    one = std::make_unique<numbered_connection>(rank, ++last);
    return *one;
  }
  void request(int rank) {
    if (pending_.add(rank)) requests_.raise();
  }
  std::vector<int> take_pending() { return pending_.take(); }
  void give_up(int, const char*) {}
  int refusals = 0;

 private:
  const int index_;
  connect_requests& requests_;
  std::array<std::unique_ptr<numbered_connection>, MEETING> all_;
  pending_connects pending_{MEETING};
};

// What carries hellos. Each number is one of so many; 0: none.
struct datagrams {
  unsigned lose = 0, repeat = 0, shuffle = 0;
  std::minstd_rand random{1};
  std::array<std::deque<test_hello>, MEETING> to;
  std::size_t sent = 0;

  bool is(unsigned one_of) { return one_of != 0 && random() % one_of == 0; }
  void send(int rank, const test_hello& what) {
    ++sent;
    auto& queue = to[static_cast<std::size_t>(rank)];
    for (int copies = is(lose) ? 0 : is(repeat) ? 2 : 1; copies > 0; --copies)
      is(shuffle) ? queue.push_front(what) : queue.push_back(what);
  }
};

class talker final : public connector<talker, callable_queues, test_hello, test_contact> {
 public:
  static constexpr char NAME[] = "test";
  talker(book_of_nowhere& book, datagrams& way) : connector(book, 0), me_(book.rank()), way_(way) {}
  static std::uint64_t id_of(int rank) { return 100 + static_cast<std::uint64_t>(rank); }
  int early = 0;     // hellos to devices that are not made
  int refusals = 0;  // of hellos
  bool throws = false;

 private:
  friend connector;
  std::uint64_t id() const noexcept { return id_of(me_); }
  void read_hellos() {
    auto& mine = way_.to[static_cast<std::size_t>(me_)];
    while (!mine.empty()) {
      const test_hello said = mine.front();
      mine.pop_front();
      hear(said);
    }
  }
  test_contact* sender_of(const test_hello& said) {
    return said.from == id_of(said.rank) ? &contact_ : nullptr;
  }
  bool take_up(numbered_connection& on, callable_queues&, const test_hello& said, test_contact&) {
    if (on.peer == 0) on.peer = said.number;
    return on.peer == said.number;
  }
  static bool is_about(const numbered_connection& on, const test_hello& said) {
    return on.peer == 0 || on.peer == said.number;
  }
  static bool knows_us(const numbered_connection& on, const test_hello& said) {
    return said.echo == on.number;
  }
  bool say(numbered_connection& on, callable_queues& q, std::uint8_t flags) {
    if (throws) throw backend_error("no address handle");
    if (refusals > 0 && refusals-- > 0) return false;
    way_.send(on.rank, {id_of(on.rank), id(), me_, static_cast<std::uint32_t>(q.index()), flags,
                        on.number, on.peer});
    return true;
  }
  void refuse(int rank, const callable_queues& q) {
    way_.send(rank, {id_of(rank), id(), me_, static_cast<std::uint32_t>(q.index()),
                     hello_flags::LEAVES, 0, 0});
  }
  void disconnect_called() {
    caller_.for_each_called(
        [&](numbered_connection& on, callable_queues& q) { say(on, q, hello_flags::LEAVES); });
  }
  void hear_early(const test_hello&) noexcept { ++early; }

  const int me_;
  datagrams& way_;
  test_contact contact_;
};

struct test_rank {
  test_rank(int rank, datagrams& way) : book(rank, MEETING), calls(book, way) {}
  callable_queues& add_device() {
    devices.push_back(
        std::make_unique<callable_queues>(static_cast<int>(devices.size()), calls.requests()));
    calls.add_queues(*devices.back());
    return *devices.back();
  }
  book_of_nowhere book;
  talker calls;
  std::vector<std::unique_ptr<callable_queues>> devices;
};

class connector_test : public testing::Test {
 protected:
  connector_test() { open(1); }
  void open(std::size_t devices) {
    ranks_.clear();
    way_ = {};
    for (int rank = 0; rank < MEETING; ++rank) {
      ranks_.push_back(std::make_unique<test_rank>(rank, way_));
      for (std::size_t i = 0; i < devices; ++i) ranks_.back()->add_device();
    }
  }
  test_rank& at(int rank) { return *ranks_[static_cast<std::size_t>(rank)]; }
  numbered_connection* on(int rank, int peer, std::size_t device = 0) {
    return at(rank).devices[device]->find(peer);
  }
  bool is_ready(int rank, int peer, std::size_t device = 0) {
    const numbered_connection* const one = on(rank, peer, device);
    return one != nullptr && one->state() == stage::ready;
  }
  void look() {
    for (const auto& one : ranks_) one->calls.look();
  }
  // Whoever is ready is known at the other end.
  void expect_sound() {
    for (int rank = 0; rank < MEETING; ++rank) {
      for (int peer = 0; peer < MEETING; ++peer) {
        for (std::size_t device = 0; device < at(rank).devices.size(); ++device) {
          if (!is_ready(rank, peer, device)) continue;
          const numbered_connection* const there = on(peer, rank, device);
          ASSERT_NE(there, nullptr);
          EXPECT_EQ(there->peer, on(rank, peer, device)->number);
        }
      }
    }
  }
  // Hellos are repeated as time passes. The limit is for what never comes.
  bool until(const std::function<bool()>& is_so) {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!is_so() && std::chrono::steady_clock::now() < limit) {
      look();
      expect_sound();
      if (HasFailure()) return false;
    }
    return is_so();
  }
  test_hello call(int from, int number, std::uint8_t flags = hello_flags::WANTS_ANSWER) {
    return {talker::id_of(0), talker::id_of(from), from, 0, flags, number, 0};
  }

  datagrams way_;
  std::vector<std::unique_ptr<test_rank>> ranks_;
};

TEST_F(connector_test, hellos__that_are_lost_repeated_and_late_connect_everybody_once) {
  for (unsigned seed = 1; seed <= 12; ++seed) {
    open(2);
    way_.random.seed(seed);
    way_.lose = seed % 3 == 0 ? 0 : 3;
    way_.repeat = seed % 2 == 0 ? 3 : 0;
    way_.shuffle = 2;
    for (int rank = 0; rank < MEETING; ++rank)
      for (const auto& device : at(rank).devices)
        for (int peer = 0; peer < MEETING; ++peer)
          if (peer != rank && (seed % 4 != 0 || rank < peer)) device->request(peer);
    ASSERT_TRUE(until([&] {
      for (int rank = 0; rank < MEETING; ++rank)
        for (int peer = 0; peer < MEETING; ++peer)
          for (const std::size_t device : {0u, 1u})
            if (peer != rank && !is_ready(rank, peer, device)) return false;
      return true;
    })) << "seed "
        << seed;
    look();
    for (const auto& one : ranks_) EXPECT_FALSE(one->calls.polls().is_due()) << "somebody calls";
  }
}

TEST_F(connector_test, stranger__is_not_talked_to) {
  test_hello other_fabric = call(1, 7), other_job = call(1, 7), me = call(0, 7),
             nobody = call(1, 7);
  other_fabric.to = 5;
  other_job.from = 5;
  nobody.rank = MEETING;
  for (const test_hello& one : {other_fabric, other_job, me, nobody}) way_.to[0].push_back(one);
  at(0).calls.look();
  for (int rank = 0; rank < MEETING; ++rank) EXPECT_EQ(on(0, rank), nullptr) << rank;
  EXPECT_EQ(way_.sent, 0u);
}

TEST_F(connector_test, device_that_is_not_made_yet__is_called_again) {
  at(1).add_device().request(0);
  at(1).calls.look();
  at(0).calls.look();
  EXPECT_EQ(at(0).calls.early, 1);
  at(0).add_device();
  EXPECT_TRUE(until([&] { return is_ready(0, 1, 1) && is_ready(1, 0, 1); }));
}

// A hello of a connection that is no more comes behind one of its successor.
TEST_F(connector_test, late_hello_of_another_connection__changes_nothing) {
  way_.to[0].push_back(call(1, 7));
  at(0).calls.look();
  ASSERT_NE(on(0, 1), nullptr);
  const std::size_t answers = way_.sent;
  test_hello late = call(1, 8);
  late.echo = on(0, 1)->number;
  way_.to[0].push_back(late);
  late.flags = hello_flags::LEAVES;
  way_.to[0].push_back(late);
  at(0).calls.look();
  EXPECT_EQ(on(0, 1)->peer, 7);
  EXPECT_EQ(on(0, 1)->state(), stage::calling);
  EXPECT_EQ(way_.sent, answers);
}

TEST_F(connector_test, leave__is_heard_by_who_was_called_also_twice) {
  way_.repeat = 1;
  at(0).devices[0]->request(1);
  at(0).calls.look();
  at(1).calls.look();
  at(0).calls.leave();
  for (int i = 0; i < 3; ++i) at(1).calls.look();
  ASSERT_NE(on(1, 0), nullptr);
  EXPECT_EQ(on(1, 0)->state(), stage::left);
  EXPECT_FALSE(at(1).calls.polls().is_due());
}

TEST_F(connector_test, leave__of_who_was_never_met_makes_no_connection) {
  way_.to[0].push_back(call(1, 7, hello_flags::LEAVES));
  at(0).calls.look();
  EXPECT_EQ(on(0, 1), nullptr);
}

// Polls go on behind it: the devices of who leaves wait until all is out.
TEST_F(connector_test, leave__nobody_is_called_behind_it) {
  at(0).devices[0]->request(1);
  at(0).calls.leave();
  at(0).calls.look();
  EXPECT_EQ(on(0, 1), nullptr);
  EXPECT_EQ(way_.sent, 0u);
}

TEST_F(connector_test, leave__who_calls_behind_it_hears_of_it) {
  at(0).devices[0]->request(1);
  at(0).calls.look();
  at(0).calls.leave();
  way_.to[1].clear();
  for (const int rank : {1, 2}) {
    at(rank).devices[0]->request(0);
    at(rank).calls.look();
  }
  at(0).calls.look();
  EXPECT_EQ(on(0, 2), nullptr) << "it was not known before";
  for (const int rank : {1, 2}) {
    at(rank).calls.look();
    EXPECT_EQ(on(rank, 0)->state(), stage::left) << rank;
  }
}

TEST_F(connector_test, connection_that_failed__is_not_taken_up_again) {
  at(0).devices[0]->request(1);
  at(1).devices[0]->request(0);
  ASSERT_TRUE(until([&] { return is_ready(0, 1) && is_ready(1, 0); }));
  on(0, 1)->move(stage::failed);
  test_hello again = call(1, on(1, 0)->number);
  again.echo = on(0, 1)->number;
  way_.to[0].push_back(again);
  at(0).calls.look();
  EXPECT_EQ(on(0, 1)->state(), stage::failed);
}

TEST_F(connector_test, before_ready__comes_once_and_first) {
  std::vector<int> ranks;
  at(0).calls.before_ready([&](int rank) {
    EXPECT_EQ(on(0, rank)->state(), stage::calling);
    ranks.push_back(rank);
  });
  way_.repeat = 1;
  at(0).devices[0]->request(1);
  ASSERT_TRUE(until([&] { return is_ready(0, 1) && is_ready(1, 0); }));
  look();
  EXPECT_EQ(ranks, std::vector<int>{1});
}

TEST_F(connector_test, queue_pair_or_hello_that_is_refused__keeps_nobody_else_back) {
  at(0).devices[0]->refusals = 3;
  at(0).calls.refusals = 3;
  for (const int peer : {1, 2}) at(0).devices[0]->request(peer);
  EXPECT_TRUE(until([&] { return is_ready(0, 1) && is_ready(0, 2); }));
  at(1).calls.throws = true;
  at(1).devices[0]->request(2);
  at(1).calls.look();
  EXPECT_EQ(on(1, 2)->state(), stage::calling);
  at(1).calls.throws = false;
  EXPECT_TRUE(until([&] { return is_ready(1, 2) && is_ready(2, 1); }));
}

TEST_F(connector_test, rank_that_was_given_up__is_told_though_there_is_no_connection) {
  constexpr int CALLS = caller<numbered_connection, callable_queues>::FAILURES;
  at(0).devices[0]->refusals = CALLS;
  at(1).devices[0]->request(0);
  at(1).calls.look();
  const test_hello said = way_.to[0].front();
  way_.to[0].clear();
  // As often as may be, and once more; nobody is told before.
  for (int i = 1; i < CALLS; ++i) way_.to[0].push_back(said);
  at(0).calls.look();
  EXPECT_TRUE(way_.to[1].empty());
  for (int i = 0; i < 2; ++i) way_.to[0].push_back(said);
  at(0).calls.look();
  EXPECT_EQ(at(0).devices[0]->refusals, 0);
  EXPECT_EQ(on(0, 1), nullptr);
  at(1).calls.look();
  EXPECT_EQ(on(1, 0)->state(), stage::left);
  EXPECT_FALSE(at(1).calls.polls().is_due()) << "it still calls";
}

TEST_F(connector_test, allocations__that_fail_one_by_one_cost_no_connection) {
  for (std::uint64_t n = 1, is_over = 0; is_over == 0; ++n) {
    ASSERT_LT(n, 200u);
    open(1);
    at(0).devices[0]->request(1);
    {
      const test::fail_nth_new failing(n);
      for (int i = 0; i < 4; ++i) look();
      is_over = failing.fired() ? 0 : 1;
    }
    ASSERT_TRUE(until([&] { return is_ready(0, 1) && is_ready(1, 0); })) << "allocation " << n;
  }
}

}  // namespace
}  // namespace lci::net::connected
