// Polling, with a network that reports what the test says: its messages come in batches, its posts
// are refused, its queues are short of memory.
#include "lci/net/connected/event_queue.hpp"

#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "lci/mem/arena.hpp"
#include "lci/mem/region_table.hpp"
#include "lci/net/connected/connection.hpp"
#include "lci/net/connected/device_queues.hpp"
#include "tests/support/failing_new/failing_new.hpp"
#include "tests/unit/net/connected/listener.hpp"

namespace lci::net::connected {
namespace {

using log = std::vector<std::string>;
constexpr int ALL_RANKS = 4;

struct posting_connection : connection {
  using connection::connection;
  bool is_idle() const noexcept { return posted == 0; }
  int posted = 0;
  bool is_stopped = false, has_said = false;
};

struct queue_note {
  enum class kind { other, withdrawn };
  kind what = kind::other;
  int slot = 0, generation = 0;
};

// Places without a network: they count what becomes of them.
struct counted_receives {
  struct place {
    mem::packet* packet = nullptr;
    int number = 0;
  };
  void again(place&) noexcept { ++used_again; }
  void replace(place& one) noexcept {
    ++replaced;
    one.packet = nullptr;
  }
  int used_again = 0, replaced = 0;
};

class test_queues : public device_queues<posting_connection, queue_note> {
 public:
  using place = counted_receives::place;
  test_queues(const fabric_config& config, connect_requests& requests)
      : device_queues(config, 256, 0, {}, requests) {}
  posting_connection& make(int rank, connection::stage now = connection::stage::ready) {
    posting_connection& made = add(std::make_unique<posting_connection>(rank));
    if (now != connection::stage::calling) made.move(now);
    return made;
  }
  void tell(int rank, const queue_note& what) noexcept {
    due_notices_.tell(rank, what,
                      [this](int to, const queue_note& one) { return send_note(to, one); });
  }
  bool send_note(int rank, const queue_note& what) noexcept {
    if (refusals > 0 && refusals-- > 0) return false;
    told.emplace_back(rank, what.slot);
    return true;
  }
  using device_queues::is_quiet;
  int refusals = 0;  // of notes
  std::vector<std::pair<int, int>> told;

 protected:
  counted_receives receives_;
};

struct silent_calls {
  attention& polls() noexcept { return polls_; }
  void look() noexcept {
    if (then) then();
  }
  void make_ready(connection& on) noexcept {
    met.push_back(on.rank);
    on.move(connection::stage::ready);
  }
  std::vector<int> met;
  attention polls_;
  std::function<void()> then;
};
struct forgetful_keys {
  bool is_open(int) const noexcept { return false; }
  void forget(int rank) noexcept { forgotten.push_back(rank); }
  template <class Queue>
  void serve(Queue&) noexcept {}
  std::vector<int> forgotten;
};

class test_queue;
using base_queue = event_queue<test_queue, test_queues, int, silent_calls, forgetful_keys>;
// An event is the number of a message, from rank 1.
class test_queue final : public base_queue {
 public:
  static constexpr std::uint64_t LOOK_MS = 0;
  static constexpr std::uint64_t LEAVE_MS = 20;
  using base_queue::base_queue;
  std::size_t poll(sink& to, std::size_t max) noexcept { return poll_once(to, max); }
  // One more message is on the way.
  void send() {
    place& into = places_.emplace_back();
    into.number = static_cast<int>(places_.size()) - 1;
    into.packet = packets_.get();
    ASSERT_NE(into.packet, nullptr);
    way_.push_back(into.number);
  }
  void leave_alone(int number) { places_[static_cast<std::size_t>(number)].packet = nullptr; }
  int returned() const noexcept { return receives_.used_again + receives_.replaced; }
  using base_queue::fail;
  using base_queue::meet;
  int least_batch = 1, most_batch = BATCH;
  int refused_disconnects = 0;
  std::size_t told_before = 0;  // notes, when the last disconnect was said
  std::minstd_rand random{1};

 private:
  friend base_queue;
  bool fetch() {
    int* batch = next_batch();
    const int n = std::uniform_int_distribution(least_batch, most_batch)(random);
    for (int i = 0; i < n && !way_.empty(); ++i) {
      *batch = way_.front();
      ++batch;
      way_.pop_front();
    }
    end_ = batch;
    return first_ != end_;
  }
  std::size_t present_some(sink& to, std::size_t max) noexcept {
    std::size_t n = 0;
    while (n < max && (first_ != end_ || fetch())) {
      const int number = *first_++;
      place& into = places_[static_cast<std::size_t>(number)];
      const arrival message{1, static_cast<std::uint32_t>(number), into.packet->payload(), 1,
                            into.packet};
      if (!deliver(to, message, into)) {
        put_back() = number;
        break;
      }
      ++n;
    }
    return n;
  }
  void stop(posting_connection& on) noexcept { on.is_stopped = true; }
  void drop_posted(sink& to, posting_connection& on, std::string_view reason) noexcept {
    for (; on.posted > 0; --on.posted) to.on_error(on.rank, nullptr, reason);
  }
  void look_at(sink&, posting_connection&) noexcept {}
  bool say_disconnect(posting_connection& on, bool) noexcept {
    if (refused_disconnects > 0 && refused_disconnects-- > 0) return false;
    told_before = told.size();
    return on.has_said = true;
  }

  std::deque<place> places_;
  std::deque<int> way_;
};

class event_queue_test : public testing::Test {
 protected:
  event_queue_test() { open(); }
  void open() {
    config_.book = &book_;
    config_.arena = &arena_;
    config_.regions = &regions_;
    queue_ = std::make_unique<test_queue>(calls_, keys_, config_, requests_);
  }
  // Also what is looked after now and then.
  void poll() {
    calls_.polls_.add();
    queue_->poll(to_, 32);
    calls_.polls_.drop();
  }

  book_of_nowhere book_{0, ALL_RANKS};
  mem::arena arena_;
  mem::region_table regions_{arena_};
  fabric_config config_;
  silent_calls calls_;
  forgetful_keys keys_;
  connect_requests requests_{calls_.polls_};
  std::unique_ptr<test_queue> queue_;
  listener to_;
};

// Sinks that take, keep and defer, and poll again inside of messages.
TEST_F(event_queue_test, messages__each_once_and_in_order) {
  constexpr int MESSAGES = 500;
  for (unsigned seed = 1; seed <= 30; ++seed) {
    open();
    queue_->random.seed(seed);
    std::minstd_rand random(seed);
    const auto is = [&](unsigned one_of) { return random() % one_of == 0; };
    std::vector<int> got;
    int depth = 0;
    to_.answer = [&](const arrival& what) {
      if (is(4)) return verdict::deferred;
      got.push_back(static_cast<int>(what.imm));
      mem::packet* const packet = what.packet;
      if (depth < 5 && is(3)) {
        ++depth;
        queue_->poll(to_, 1 + random() % 8);
        --depth;
      }
      if (!is(3)) return verdict::taken;
      mem::release_packet(arena_, packet);
      return verdict::kept;
    };
    int sent = 0;
    for (int i = 0; i < 100000 && got.size() < MESSAGES; ++i) {
      for (; sent < MESSAGES && is(2); ++sent) queue_->send();
      queue_->poll(to_, 1 + random() % 16);
    }
    ASSERT_EQ(got.size(), static_cast<std::size_t>(MESSAGES)) << "seed " << seed;
    for (int i = 0; i < MESSAGES; ++i) ASSERT_EQ(got[static_cast<std::size_t>(i)], i) << seed;
    EXPECT_EQ(queue_->returned(), MESSAGES) << "a place came back twice or never, seed " << seed;
  }
}

TEST_F(event_queue_test, poll__of_a_thread_that_is_inside_is_limited_by_what_was_asked) {
  for (int i = 0; i < 10; ++i) queue_->send();
  EXPECT_EQ(queue_->poll(to_, 3), 3u);
  EXPECT_EQ(queue_->poll(to_, 32), 7u);
  EXPECT_EQ(queue_->poll(to_, 32), 0u);
}

TEST_F(event_queue_test, end__once_and_before_what_fails_by_it) {
  posting_connection& on = queue_->make(1);
  on.posted = 2;
  to_.then = [&] { queue_->fail(to_, on, "again"); };
  queue_->fail(to_, on, "broken");
  queue_->fail(to_, on, "later");
  EXPECT_EQ(to_.heard, (log{"failed 1: broken", "error 1: broken", "error 1: broken"}));
  EXPECT_TRUE(on.is_stopped);
  EXPECT_EQ(keys_.forgotten, std::vector<int>{1});
  for (int i = 0; i < 3; ++i) poll();
  EXPECT_EQ(to_.heard.size(), 3u);
}

// Which does before what has to be done before.
TEST_F(event_queue_test, meet__the_connector_makes_it_ready) {
  posting_connection& on = queue_->make(2, connection::stage::calling);
  queue_->meet(on);
  EXPECT_EQ(calls_.met, std::vector<int>{2});
  EXPECT_EQ(on.state(), connection::stage::ready);
}

// As the connector moves it, which tells nobody.
TEST_F(event_queue_test, end__that_others_have_noticed_is_told_at_a_look) {
  queue_->make(1, connection::stage::left);
  queue_->make(2, connection::stage::failed);
  poll();
  poll();
  EXPECT_EQ(to_.heard, (log{"left 1: the peer left", "failed 2: no connection could be made"}));
}

TEST_F(event_queue_test, give_up__is_told_once_whether_there_is_a_connection_or_not) {
  queue_->make(2, connection::stage::calling);
  queue_->make(3);
  for (const int rank : {1, 2, 3}) queue_->give_up(rank, "out of reach");
  errorcode_t code{};
  EXPECT_EQ(queue_->ready(1, code), nullptr);
  EXPECT_EQ(code, errorcode_t::retry_nomem) << "nobody has heard of it";
  for (int i = 0; i < 3; ++i) poll();
  EXPECT_EQ(to_.heard, (log{"failed 1: out of reach", "failed 2: out of reach"}))
      << "whoever is connected all the same is not lost";
  EXPECT_EQ(queue_->ready(1, code), nullptr);
  EXPECT_EQ(code, errorcode_t::fatal);
  // One that was under way when it was given up.
  queue_->fail(to_, queue_->make(1), "late");
  EXPECT_EQ(to_.heard.size(), 2u);
}

TEST_F(event_queue_test, give_up__inside_of_a_look_is_not_overlooked) {
  calls_.then = [&] { queue_->give_up(1, "out of reach"); };
  poll();
  EXPECT_EQ(to_.heard, (log{"failed 1: out of reach"}));
}

TEST_F(event_queue_test, fail_later__what_was_posted_is_told_also_when_memory_is_short) {
  net_op op;
  op.rank = 2;
  for (std::uint64_t n = 1; n < 20; ++n) {
    to_.heard.clear();
    std::size_t posted = 0;
    {
      const test::fail_nth_new failing(n);
      for (int i = 0; i < 200; ++i) posted += queue_->fail_later(op, "why") == errorcode_t::posted;
    }
    EXPECT_FALSE(queue_->is_quiet());
    queue_->poll(to_, 32);
    EXPECT_EQ(to_.heard.size(), posted) << n;
    EXPECT_GE(posted, 199u) << n;
    EXPECT_TRUE(queue_->is_quiet());
  }
}

TEST_F(event_queue_test, notes__that_are_refused_are_told_again_in_their_order) {
  queue_->refusals = 5;
  for (int i = 1; i <= 3; ++i) queue_->tell(1, {queue_note::kind::other, i, 1});
  EXPECT_TRUE(queue_->told.empty());
  for (int i = 0; i < 5; ++i) queue_->poll(to_, 32);
  EXPECT_EQ(queue_->told, (std::vector<std::pair<int, int>>{{1, 1}, {1, 2}, {1, 3}}));
}

TEST_F(event_queue_test, leave__is_said_to_all_that_are_ready_however_often_it_is_refused) {
  queue_->refused_disconnects = 7;
  const posting_connection& first = queue_->make(1);
  const posting_connection& second = queue_->make(2);
  const posting_connection& calling = queue_->make(3, connection::stage::calling);
  queue_->leave(true);
  EXPECT_TRUE(first.has_said);
  EXPECT_TRUE(second.has_said);
  EXPECT_FALSE(calling.has_said);
}

TEST_F(event_queue_test, leave__is_said_behind_the_notes_that_wait) {
  queue_->refusals = 3;
  const posting_connection& on = queue_->make(1);
  queue_->tell(1, {queue_note::kind::other, 1, 1});
  queue_->leave(true);
  EXPECT_TRUE(on.has_said);
  EXPECT_EQ(queue_->told_before, 1u);
}

// Its last hello is read by a poll that waits for somebody else.
TEST_F(event_queue_test, leave__is_said_to_who_becomes_ready_meanwhile) {
  posting_connection& busy = queue_->make(1);
  posting_connection& late = queue_->make(2, connection::stage::calling);
  busy.posted = 1;
  calls_.then = [&] {
    busy.posted = 0;
    late.move(connection::stage::ready);
  };
  calls_.polls_.add();
  queue_->leave(true);
  calls_.polls_.drop();
  EXPECT_EQ(busy.posted, 0);
  EXPECT_TRUE(late.has_said);
}

TEST_F(event_queue_test, leave__does_not_wait_for_ever) {
  posting_connection& on = queue_->make(1);
  on.posted = 1;
  queue_->leave(true);
  EXPECT_TRUE(on.has_said);
  EXPECT_EQ(on.posted, 1);
}

TEST_F(event_queue_test, leave__once_more_is_said_to_new_ones_and_waits_for_nobody_twice) {
  posting_connection& stuck = queue_->make(1);
  posting_connection& late = queue_->make(2, connection::stage::calling);
  stuck.posted = 1;
  queue_->leave(true);
  stuck.has_said = false;
  late.move(connection::stage::ready);
  int looks = 0;
  calls_.then = [&] { ++looks; };
  calls_.polls_.add();
  queue_->leave(true);
  calls_.polls_.drop();
  EXPECT_FALSE(stuck.has_said);
  EXPECT_TRUE(late.has_said);
  EXPECT_EQ(looks, 0) << "nothing is under way to who is waited for";
}

}  // namespace
}  // namespace lci::net::connected
