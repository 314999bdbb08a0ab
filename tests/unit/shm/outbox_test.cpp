#include "backends/shm/outbox.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <map>
#include <thread>

#include "tests/support/in_thread.hpp"
#include "tests/support/race_hook.hpp"
#include "tests/unit/shm/pair.hpp"

namespace lci::shm {
namespace {

using test::pair;

// Runs f(i) in n threads that all live at the same time.
void in_threads(int n, const std::function<void(int)>& f) {
  std::latch all_there(n), all_done(n);
  std::vector<std::thread> threads;
  for (int i = 0; i < n; ++i) {
    threads.emplace_back([&, i] {
      all_there.arrive_and_wait();
      f(i);
      all_done.arrive_and_wait();
    });
  }
  for (std::thread& t : threads) t.join();
}

}  // namespace

TEST(own, before_the_first_post__there_is_no_lane) {
  pair p;
  EXPECT_EQ(p.a.behind().out.own(1), nullptr);
  p.a.say(1, "x");
  EXPECT_NE(p.a.behind().out.own(1), nullptr);
  EXPECT_EQ(p.a.behind().out.own(0), nullptr);
}

TEST(own, a_thread_that_ends__passes_its_lane_to_the_next) {
  pair p;
  p.meet();
  std::map<tx_lane*, int> used;
  for (std::uint32_t i = 0; i < 20; ++i) {
    std::thread([&] {
      EXPECT_EQ(p.post([&] { return p.a.say(1, "x", i); }), errorcode_t::done);
      ++used[p.a.behind().out.own(1)];
    }).join();
  }
  EXPECT_EQ(used.size(), 1u);
  p.until([&] { return p.b.seen.messages.size() == 20; });
  for (std::uint32_t i = 0; i < 20; ++i) EXPECT_EQ(p.b.seen.messages[i].imm, i);
}

TEST(acquire, more_threads_than_lanes__nothing_is_lost_and_each_thread_keeps_its_order) {
  constexpr int THREADS = 40;
  constexpr std::uint32_t EACH = 300;
  pair p;
  p.meet();
  std::atomic<int> running{THREADS};
  std::atomic<int> without_own{0};
  std::thread all([&] {
    in_threads(THREADS, [&](int t) {
      for (std::uint32_t i = 0; i < EACH; ++i) {
        const std::uint32_t words[2] = {static_cast<std::uint32_t>(t), i};
        errorcode_t rc;
        do {
          rc = p.a.out->send_inline(1, 0, nullptr, 0, words, sizeof(words));
          if (rc != errorcode_t::done) std::this_thread::yield();
        } while (rc != errorcode_t::done);
      }
      without_own += p.a.behind().out.own(1) == nullptr ? 1 : 0;
      --running;
    });
  });
  p.until([&] { return p.b.seen.messages.size() == THREADS * EACH; });
  all.join();
  EXPECT_GE(without_own, THREADS - static_cast<int>(OWN_LANES));
  std::map<std::uint32_t, std::uint32_t> next;
  for (const auto& m : p.b.seen.messages) {
    std::uint32_t words[2];
    ASSERT_EQ(m.data.size(), sizeof(words));
    std::memcpy(words, m.data.data(), sizeof(words));
    EXPECT_EQ(words[1], next[words[0]]++) << "thread " << words[0];
  }
}

TEST(acquire, full__is_retry_until_slots_are_handed_back) {
  pair p;
  p.meet();
  std::uint32_t sent = 0;
  while (p.a.say(1, "x", sent) == errorcode_t::done) ++sent;
  EXPECT_EQ(sent, LANE_SLOTS);
  EXPECT_EQ(p.a.say(1, "x", sent), errorcode_t::retry_nomem);
  for (std::uint32_t i = 1; i < rx_lane::MOST_OWED; ++i) EXPECT_EQ(p.b.poll(1), 1u);
  EXPECT_EQ(p.a.say(1, "x", sent), errorcode_t::retry_nomem) << "they are owed";
  EXPECT_EQ(p.b.poll(1), 1u);
  for (std::uint32_t i = 0; i < rx_lane::MOST_OWED; ++i)
    EXPECT_EQ(p.a.say(1, "x", sent++), errorcode_t::done);
  EXPECT_EQ(p.a.say(1, "x", sent), errorcode_t::retry_nomem);
  p.until([&] { return p.b.seen.messages.size() == sent; });
  for (std::uint32_t i = 0; i < sent; ++i) EXPECT_EQ(p.b.seen.messages[i].imm, i);
}

TEST(acquire, address_not_known_yet__is_retry_and_works_later) {
  test::addresses all(2), none(2);
  test::side a(0, all);
  test::test_book empty(0, none);
  EXPECT_EQ(a.say(1, "x"), errorcode_t::retry_nomem);
  test::side b(1, all);
  EXPECT_EQ(a.say(1, "x"), errorcode_t::done);
  for (int i = 0; i < 100000 && b.seen.messages.empty(); ++i) b.poll();
  EXPECT_EQ(b.seen.messages.size(), 1u);
}

TEST(acquire, a_rank_that_does_not_exist__is_fatal) {
  pair p;
  EXPECT_EQ(p.a.behind().out.own(1), nullptr);
  outbox::hold lane;
  EXPECT_EQ(p.a.behind().out.acquire(0, lane), errorcode_t::done);
  tx_lane* none = nullptr;
  EXPECT_EQ(p.a.net->connections().make_lane(2, p.a.behind().out, 0, none), errorcode_t::fatal);
  EXPECT_EQ(p.a.net->connections().make_lane(-1, p.a.behind().out, 0, none), errorcode_t::fatal);
}

TEST(is_past, marks_what_was_written_and_no_more) {
  pair p;
  p.meet();
  p.a.say(1, "x");
  outbox& out = p.a.behind().out;
  const outbox::mark m = p.a.net->connections().mark(1, out);
  EXPECT_FALSE(out.is_past(1, m));
  p.b.poll();
  p.b.poll();  // a slot goes back when there is nothing else to do
  p.b.poll();  // a slot goes back late
  EXPECT_TRUE(out.is_past(1, m));
  p.a.say(1, "later");
  EXPECT_TRUE(out.is_past(1, m)) << "what came after the mark does not count";
}

// What another thread finds while a put is announced and not yet in its slot.
TEST(find_open_puts, one_is_only_announced__those_before_it_count) {
  pair p;
  p.meet();
  std::string target(100, '.'), text = "first";
  net::net_op op;
  op.rank = 1;
  op.buffer = text.data();
  op.size = text.size();
  op.remote = p.b.expose(target.data(), target.size());
  outbox& out = p.a.behind().out;
  outbox::mark m;
  EXPECT_FALSE(out.find_open_puts(1, m));
  ASSERT_EQ(p.post([&] { return p.a.out->put(op); }), errorcode_t::done);
  const tx_lane& lane = *out.own(1);
  ASSERT_TRUE(out.begin_put(1, lane));
  ASSERT_TRUE(out.find_open_puts(1, m));
  EXPECT_FALSE(out.is_past(1, m)) << "the first put has not been consumed";
  p.until([&] { return out.is_past(1, m); });
  EXPECT_EQ(target.substr(0, 5), text);
  out.cancel_put(1, lane);
  EXPECT_FALSE(out.find_open_puts(1, m));
}

// What happens between the announcement of a put and the look whether its lane is still alone.
// By size: in a slot, and in a ring.
class put_announced : public testing::TestWithParam<std::size_t> {
 protected:
  put_announced() {
    p.meet();
    op.rank = 1;
    op.buffer = text.data();
    op.size = text.size();
    op.remote = p.b.expose(target.data(), target.size());
    op.in_order = true;
  }
  void SetUp() override {
    if (!lci::test::has_race_points) GTEST_SKIP() << lci::test::RACE_POINTS_MISSING;
  }
  errorcode_t put() { return p.a.out->put(op); }
  // In a thread that has no lane yet.
  errorcode_t say(const std::string& what) {
    errorcode_t answer = errorcode_t::fatal;
    lci::test::in_thread([&] { answer = p.a.say(1, what); });
    return answer;
  }

  static constexpr const char* POINT = "outbox.put.announced";
  pair p;
  std::string target = std::string(2000, '.'), text = test::pattern(GetParam(), 1);
  net::net_op op;
};

TEST_P(put_announced, another_thread_opens_its_lane__neither_gets_past_the_other) {
  errorcode_t second = errorcode_t::done;
  {
    const lci::test::race_hook hook(
        POINT, [&] { second = say("from another lane"); }, 1);
    EXPECT_EQ(put(), errorcode_t::retry_lock);
    EXPECT_EQ(hook.hits(), 1);
  }
  EXPECT_EQ(second, errorcode_t::retry_nomem) << "a put was announced";
  EXPECT_EQ(say("from another lane"), errorcode_t::done) << "nothing is left of the announcement";
  int done = 0;
  op.context = &done;
  EXPECT_EQ(p.post([&] { return put(); }), errorcode_t::posted) << "lanes have no order";
  p.until([&] { return p.b.seen.messages.size() == 1 && p.a.seen.completed.size() == 1; });
  EXPECT_EQ(target.substr(0, text.size()), text);
}

TEST_P(put_announced, another_thread_opens_its_lane_behind_an_earlier_put__waits_for_both) {
  ASSERT_EQ(put(), errorcode_t::done);
  {
    const lci::test::race_hook hook(
        POINT, [&] { EXPECT_EQ(say("too early"), errorcode_t::retry_nomem); }, 1);
    EXPECT_EQ(put(), errorcode_t::retry_lock);
    EXPECT_EQ(hook.hits(), 1);
  }
  EXPECT_EQ(say("too early"), errorcode_t::retry_nomem) << "the first has not been consumed";
  p.b.seen.answer = [&](const net::arrival&) {
    EXPECT_EQ(target.substr(0, text.size()), text) << "a message overtook the put";
    return net::verdict::taken;
  };
  EXPECT_EQ(p.post([&] { return say("behind it"); }), errorcode_t::done);
  p.until([&] { return p.b.seen.messages.size() == 1; });
}

TEST_P(put_announced, a_get_is_posted__it_waits_for_the_put_before) {
  ASSERT_EQ(put(), errorcode_t::done);
  std::string got(text.size(), '.'), later = test::pattern(text.size(), 2);
  net::net_op get = op;
  get.buffer = got.data();
  get.context = &got;
  op.buffer = later.data();
  {
    const lci::test::race_hook hook(
        POINT,
        [&] { lci::test::in_thread([&] { EXPECT_EQ(p.a.out->get(get), errorcode_t::posted); }); },
        1);
    EXPECT_EQ(put(), errorcode_t::done);
    EXPECT_EQ(hook.hits(), 1);
  }
  for (int i = 0; i < 3; ++i) p.a.poll();
  const outbox::mark written = p.a.net->connections().mark(1, p.a.behind().out);
  EXPECT_EQ(written.used >> POLLER_LANE & 1, 0u) << "the get was sent before the put was consumed";
  p.until([&] { return p.a.seen.completed.size() == 1; });
  EXPECT_TRUE(got == text || got == later) << got;
}

INSTANTIATE_TEST_SUITE_P(of, put_announced, testing::Values(5, 1024));

TEST(outbox, a_put_whose_thread_opens_a_second_lane__is_refused_before_it_touches_a_ring) {
  pair p;
  p.meet();
  ASSERT_EQ(p.a.say(1, "opens the first lane"), errorcode_t::done);
  p.until([&] { return p.b.seen.messages.size() == 1; });
  std::string target(2000, '.'), text = test::pattern(1024, 1);
  net::net_op op;
  op.rank = 1;
  op.buffer = text.data();
  op.size = text.size();
  op.remote = p.b.expose(target.data(), target.size());
  op.in_order = true;
  const std::size_t before = p.a.arena.in_use();
  lci::test::in_thread([&] { EXPECT_EQ(p.a.out->put(op), errorcode_t::retry_lock); });
  EXPECT_LT(p.a.arena.in_use(), before + put_ring::SIZE);
  outbox::mark ignored;
  EXPECT_FALSE(p.a.behind().out.find_open_puts(1, ignored));
}

// A rank may live on in one net context when it has left another one.
TEST(outbox, recall__what_is_lent_in_another_fabric_stays_lent) {
  pair p;
  net::fabric_config config;
  config.book = &p.a.book;
  config.arena = &p.a.arena;
  config.regions = &p.a.regions;
  fabric other(config);
  const std::unique_ptr<net::device> dev = other.make_device(0);
  mem::packet* const packet = p.a.pool.get();
  ASSERT_TRUE(p.a.behind().out.lend(1, packet));
  static_cast<device&>(*dev).behind().out.recall(1);
  EXPECT_EQ(p.a.pool.outstanding(), 1u);
  p.a.behind().out.recall(1);
  EXPECT_EQ(p.a.pool.outstanding(), 0u);
}

// Between a thread's look at its lane and the loan, the peer ends and all that was lent is
// recalled.
TEST(outbox, lend__behind_the_recall__comes_home_with_the_device) {
  pair p;
  p.meet();
  mem::packet* const packet = p.a.pool.get();
  p.b.close();
  p.until([&] { return !p.a.seen.gone.empty(); });
  ASSERT_TRUE(p.a.behind().out.lend(1, packet));
  EXPECT_EQ(p.a.pool.outstanding(), 1u) << "lent to a peer that had ended";
  p.a.out.reset();
  p.a.dev.reset();
  EXPECT_EQ(p.a.pool.outstanding(), 0u);
}

}  // namespace lci::shm
