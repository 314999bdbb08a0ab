// What every matching engine promises, run against each of them.
#include "lci/match/engine.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <thread>
#include <vector>

#include "lci/errors.hpp"
#include "lci/match/entry.hpp"
#include "tests/support/alloc_counter.hpp"
#include "tests/support/seed.hpp"
#include "tests/unit/match/engines.hpp"
#include "tests/unit/match/model.hpp"

using lci::ANY_SOURCE;
using lci::ANY_TAG;
using lci::matching_entry_type_t;
using lci::matching_policy_t;
using lci::tag_t;
using lci::match::match_key;
using lci::match::recv_pattern;
using lci::test::BOTH;
using lci::test::engines;

namespace {

constexpr auto NONE = matching_policy_t::none;
constexpr auto RANK = matching_policy_t::rank_only;
constexpr auto TAG = matching_policy_t::tag_only;

// The answer of a receive, or a value of its own if it has no room.
template <class Insert>
void* or_refused(Insert insert) {
  try {
    return insert();
  } catch (const lci::truncation_error&) {
    return reinterpret_cast<void*>(~std::uintptr_t{0});
  }
}

INSTANTIATE_TEST_SUITE_P(all, engines, lci::test::ALL_ENGINES, lci::test::engine_name);

}  // namespace

TEST_P(engines, insert_send__waits_for_its_receive) {
  EXPECT_EQ(send(1, 10, 100), nullptr);
  EXPECT_EQ(recv(1, 10, 200), as_value(100));
  EXPECT_EQ(engine_->size(), 0u);
}

TEST_P(engines, insert_recv__waits_for_its_message) {
  EXPECT_EQ(recv(1, 10, 200), nullptr);
  EXPECT_EQ(send(1, 10, 100), as_value(200));
  EXPECT_EQ(engine_->size(), 0u);
}

TEST_P(engines, take_recv__never_files_and_never_takes_a_message) {
  EXPECT_EQ(engine_->take_recv({1, 10, BOTH}), nullptr);
  EXPECT_EQ(engine_->size(), 0u);
  EXPECT_EQ(engine_->insert_send({1, 10, BOTH}, as_value(100)), nullptr);
  EXPECT_EQ(engine_->take_recv({1, 10, BOTH}), nullptr);
  EXPECT_EQ(recv(1, 10, 200), as_value(100));
}

// An entry that lies in the caller's record is never the pool's, however it leaves the engine.
TEST_P(engines, insert_recv__an_entry_of_the_caller_is_the_callers_again) {
  lci::match::entry lent;
  lent.value = as_value(200);
  lent.is_lent = true;
  const auto file = [&](int rank, tag_t tag, std::size_t room = 8) {
    return engine_->insert_recv({rank, tag, BOTH, room}, lent);
  };
  EXPECT_EQ(file(1, 10), nullptr);
  EXPECT_EQ(send(1, 10, 100), as_value(200));
  EXPECT_EQ(file(1, 11), nullptr);
  EXPECT_EQ(engine_->insert_send({1, 11, BOTH}, as_value(101)), as_value(200));
  EXPECT_EQ(file(1, 12), nullptr);
  EXPECT_TRUE(engine_->remove_recv({1, 12, BOTH}, as_value(200)));
  EXPECT_EQ(file(1, 13), nullptr);
  engine_->remove_recvs([](int, void*) { return true; });
  EXPECT_EQ(engine_->insert_send({1, 14, BOTH, 9}, as_value(102)), nullptr);
  EXPECT_THROW(file(1, 14), lci::truncation_error);
  EXPECT_EQ(file(1, 14, 9), as_value(102));
  EXPECT_EQ(file(lci::ANY_SOURCE, 15), nullptr);
  EXPECT_EQ(send(4, 15, 103), as_value(200));
  // A pool that had taken it would lend it to these two.
  EXPECT_EQ(recv(1, 16, 1), nullptr);
  EXPECT_EQ(recv(1, 17, 2), nullptr);
  EXPECT_EQ(lent.value, as_value(200));
  EXPECT_EQ(file(1, 18), nullptr);
  int left = 0;
  engine_->drain_st([&](void*, lci::matching_entry_type_t, bool) {
    ++left;
    lent.value = nullptr;  // its record may be gone
  });
  EXPECT_EQ(left, 3);
}

TEST_P(engines, insert_send__other_rank_or_tag_is_no_partner) {
  EXPECT_EQ(recv(1, 10, 200), nullptr);
  EXPECT_EQ(send(2, 10, 100), nullptr);
  EXPECT_EQ(send(1, 11, 101), nullptr);
  EXPECT_EQ(engine_->size(), 3u);
  drain();
}

TEST_P(engines, order__first_in_first_out_per_key) {
  for (int i = 1; i <= 50; ++i) {
    send(1, 10, i);
    send(2, 10, 100 + i);
  }
  for (int i = 1; i <= 50; ++i) ASSERT_EQ(recv(1, 10, 999), as_value(static_cast<unsigned>(i)));
  for (int i = 1; i <= 50; ++i)
    ASSERT_EQ(recv(2, 10, 999), as_value(100u + static_cast<unsigned>(i)));
  for (int i = 1; i <= 50; ++i) recv(3, 10, i);
  for (int i = 1; i <= 50; ++i) ASSERT_EQ(send(3, 10, 999), as_value(static_cast<unsigned>(i)));
}

TEST_P(engines, tags__all_64_bits_count) {
  const tag_t low = 5, high = low | tag_t{1} << 63, middle = low | tag_t{1} << 32;
  EXPECT_EQ(send(1, low, 1), nullptr);
  EXPECT_EQ(send(1, high, 2), nullptr);
  EXPECT_EQ(send(1, middle, 3), nullptr);
  EXPECT_EQ(recv(1, middle, 9), as_value(3));
  EXPECT_EQ(recv(1, high, 9), as_value(2));
  EXPECT_EQ(recv(1, low, 9), as_value(1));
}

// The reference's keys lack the policy, so that these collide.
TEST_P(engines, policies__never_collide) {
  const struct {
    matching_policy_t sent, asked;
    int rank;
    tag_t tag;
  } cases[] = {{NONE, BOTH, 0, 0}, {TAG, BOTH, 0, 7},  {RANK, BOTH, 3, 0}, {NONE, TAG, 0, 0},
               {NONE, RANK, 0, 0}, {BOTH, NONE, 0, 0}, {TAG, RANK, 0, 0},  {RANK, TAG, 0, 0}};
  for (const auto& c : cases) {
    EXPECT_EQ(send(c.rank, c.tag, 1, c.sent), nullptr);
    EXPECT_EQ(recv(c.rank, c.tag, 2, c.asked), nullptr);
    EXPECT_EQ(engine_->size(), 2u);
    drain();
  }
}

TEST_P(engines, policies__leave_out_what_they_do_not_name) {
  send(3, 7, 1, NONE);
  EXPECT_EQ(recv(8, 9, 9, NONE), as_value(1));
  send(3, 7, 2, RANK);
  EXPECT_EQ(recv(3, 9, 9, RANK), as_value(2));
  send(3, 7, 3, TAG);
  EXPECT_EQ(recv(8, 7, 9, TAG), as_value(3));
}

TEST_P(engines, wildcard__takes_messages_of_every_policy_in_arrival_order) {
  send(3, 7, 1, BOTH);
  send(4, 7, 2, TAG);
  send(3, 8, 3, RANK);
  send(5, 9, 4, NONE);
  EXPECT_EQ(recv(ANY_SOURCE, ANY_TAG, 9), as_value(1));
  EXPECT_EQ(recv(ANY_SOURCE, 7, 9), as_value(2));
  EXPECT_EQ(recv(3, ANY_TAG, 9), as_value(3));
  EXPECT_EQ(recv(ANY_SOURCE, ANY_TAG, 9), as_value(4));
  EXPECT_EQ(recv(ANY_SOURCE, ANY_TAG, 9), nullptr);
  EXPECT_EQ(send(0, 0, 5), as_value(9));
}

TEST_P(engines, wildcard__takes_the_middle_of_a_queue) {
  for (int i = 1; i <= 3; ++i) send(i, 7, i, NONE);  // one key, three senders
  EXPECT_EQ(recv(2, ANY_TAG, 9), as_value(2));
  EXPECT_EQ(recv(3, ANY_TAG, 9), as_value(3));
  send(4, 7, 4, NONE);
  EXPECT_EQ(recv(0, 0, 9, NONE), as_value(1));
  EXPECT_EQ(recv(0, 0, 9, NONE), as_value(4));
}

TEST_P(engines, wildcard__goes_by_the_actual_rank_and_tag) {
  recv(ANY_SOURCE, 7, 1);
  EXPECT_EQ(send(3, 8, 2, RANK), nullptr);
  EXPECT_EQ(send(3, 7, 3, RANK), as_value(1));
  drain();
}

TEST_P(engines, posted_first__wins_between_exact_and_wildcard) {
  recv(3, 7, 1);
  recv(ANY_SOURCE, 7, 2);
  recv(3, 7, 3);
  recv(3, ANY_TAG, 4);
  for (unsigned expected : {1, 2, 3, 4}) EXPECT_EQ(send(3, 7, 9), as_value(expected));
  recv(ANY_SOURCE, ANY_TAG, 1);
  recv(3, 7, 2);
  for (unsigned expected : {1, 2}) EXPECT_EQ(send(3, 7, 9), as_value(expected));
}

TEST_P(engines, insert_raw__is_a_key_space_of_its_own) {
  const auto SEND = matching_entry_type_t::send, RECV = matching_entry_type_t::recv;
  EXPECT_EQ(engine_->insert_raw(0, as_value(1), SEND), nullptr);
  EXPECT_EQ(engine_->insert_raw(0, as_value(2), SEND), nullptr);
  EXPECT_EQ(recv(0, 0, 3, NONE), nullptr);
  EXPECT_EQ(recv(0, 0, 4, BOTH), nullptr);
  EXPECT_EQ(recv(ANY_SOURCE, ANY_TAG, 5), nullptr);
  EXPECT_EQ(engine_->insert_raw(1, as_value(6), RECV), nullptr);
  EXPECT_EQ(engine_->insert_raw(0, as_value(7), RECV), as_value(1));
  EXPECT_EQ(engine_->insert_raw(0, as_value(8), RECV), as_value(2));
  EXPECT_EQ(engine_->insert_raw(1, as_value(9), SEND), as_value(6));
  EXPECT_EQ(send(1, 1, 10, TAG), as_value(5));
  drain();
}

TEST_P(engines, drain_st__hands_out_everything_once) {
  send(1, 1, 1);
  send(1, 1, 2);
  recv(2, 2, 3);
  recv(ANY_SOURCE, 5, 4);
  engine_->insert_raw(1, as_value(5), matching_entry_type_t::recv);
  std::map<void*, std::pair<matching_entry_type_t, bool>> left;
  engine_->drain_st([&](void* value, matching_entry_type_t type, bool is_raw) {
    EXPECT_TRUE(left.emplace(value, std::pair(type, is_raw)).second);
  });
  const auto SEND = matching_entry_type_t::send, RECV = matching_entry_type_t::recv;
  const std::map<void*, std::pair<matching_entry_type_t, bool>> expected = {
      {as_value(1), {SEND, false}},
      {as_value(2), {SEND, false}},
      {as_value(3), {RECV, false}},
      {as_value(4), {RECV, false}},
      {as_value(5), {RECV, true}}};
  EXPECT_EQ(left, expected);
  EXPECT_EQ(engine_->size(), 0u);
  EXPECT_EQ(recv(1, 1, 9), nullptr) << "the engine is empty and works on";
  drain();
}

TEST_P(engines, insert__no_heap_after_warm_up) {
  if (!lci::test::has_alloc_counter()) GTEST_SKIP() << lci::test::ALLOC_COUNTER_MISSING;
  const auto round = [&](tag_t base, bool with_wildcards) {
    for (tag_t t = 0; t < 50; ++t) send(1, base + t, 1);
    for (tag_t t = 0; t < 50; ++t) recv(1, base + t, 2);
    if (!with_wildcards) return;
    for (tag_t t = 0; t < 20; ++t) recv(ANY_SOURCE, base + t, 2);
    for (tag_t t = 0; t < 20; ++t) send(1, base + t, 1);
  };
  for (const bool with_wildcards : {false, true}) {
    round(0, with_wildcards);
    const lci::test::alloc_counter heap;
    for (tag_t base = 1; base < 200; ++base) round(base * 1000, with_wildcards);  // always new keys
    EXPECT_EQ(heap.calls(), 0u) << "with wildcards " << with_wildcards;
  }
}

// Keys are few, so that queues, collisions and wildcards meet all the time; phases change how often
// wildcards come, so that engines with several modes go through all of them.
TEST_P(engines, random__agrees_with_the_model) {
  auto random = lci::test::seeded(2);
  const auto pick = [&](std::uint64_t n) { return static_cast<unsigned>(random() % n); };
  lci::test::matching_model model;
  std::vector<std::pair<recv_pattern, std::uint64_t>> posted;
  std::uint64_t next = 1;
  for (int phase = 0; phase < 12; ++phase) {
    const unsigned wildcard_percent = phase % 3 == 0 ? 0 : phase % 3 == 1 ? 3 : 40;
    const unsigned send_percent = 40 + pick(21);
    const int steps =
        phase % 3 == 0 ? 20000 : 3000;  // long enough for the map engine to open again
    for (int i = 0; i < steps; ++i) {
      const auto policy = static_cast<matching_policy_t>(pick(4));
      const int rank = static_cast<int>(pick(3));
      const tag_t tag = pick(3);
      void* const value = as_value(next++);
      const unsigned kind = pick(100);
      if (model.size() > 400) {
        ASSERT_EQ(engine_->size(), model.size());
        drain();
        model = {};
        posted.clear();
      }
      if (kind < 8) {
        const auto type = static_cast<matching_entry_type_t>(pick(2));
        ASSERT_EQ(engine_->insert_raw(tag, value, type), model.raw(tag, value, type));
      } else if (kind < 12 && !posted.empty()) {
        const auto& [pattern, old] = posted[pick(posted.size())];
        ASSERT_EQ(engine_->remove_recv(pattern, as_value(old)), model.remove_recv(as_value(old)));
      } else if (pick(100) < send_percent) {
        const match_key key{rank, tag, policy, pick(4)};
        ASSERT_EQ(send(key, value), model.send(key, value)) << "step " << i;
      } else {
        recv_pattern pattern{rank, tag, policy, pick(20) == 0 ? 2u : 8u};
        if (pick(100) < wildcard_percent) {
          const unsigned which = pick(3);
          if (which != 0) pattern.rank = ANY_SOURCE;
          if (which != 1) pattern.tag = ANY_TAG;
        }
        posted.emplace_back(pattern, next - 1);
        ASSERT_EQ(or_refused([&] { return engine_->insert_recv(pattern, value); }),
                  or_refused([&] { return model.recv(pattern, value); }))
            << "step " << i;
      }
    }
    ASSERT_EQ(engine_->size(), model.size());
  }
  drain();
}

// Several threads file messages and receives for shared keys; some of the receives are wildcards.
// Everything must meet exactly once.
TEST_P(engines, stress__every_message_meets_one_receive) {
  constexpr std::uint64_t THREADS = 4, EACH = 6000;
  std::vector<std::atomic<int>> met(2 * THREADS * EACH + 1);
  std::vector<std::thread> threads;
  const auto note = [&](void* mine, void* partner) {
    if (partner == nullptr) return;
    ++met[reinterpret_cast<std::uint64_t>(mine)];
    ++met[reinterpret_cast<std::uint64_t>(partner)];
  };
  for (std::uint64_t t = 0; t < THREADS; ++t)
    threads.emplace_back([&, t] {
      auto random = lci::test::seeded(100 + t);
      for (std::uint64_t i = 0; i < EACH; ++i) {
        // As many messages as receives for each (rank, tag), and every wildcard covers all tags of
        // its rank.
        const int rank = static_cast<int>(i % 3);
        const tag_t tag = i % 2;
        void* const message = as_value(1 + t * EACH + i);
        void* const receive = as_value(1 + (THREADS + t) * EACH + i);
        const bool is_wild = i > EACH / 2 && random() % 8 == 0;
        note(message, send({rank, tag, BOTH}, message));
        note(receive, engine_->insert_recv({rank, is_wild ? ANY_TAG : tag, BOTH}, receive));
      }
    });
  for (auto& t : threads) t.join();
  // What is left are exact receives and messages of other tags that a wildcard displaced.
  std::uint64_t left_sends = 0, left_recvs = 0;
  engine_->drain_st([&](void* value, matching_entry_type_t type, bool) {
    ++met[reinterpret_cast<std::uint64_t>(value)];
    ++(type == matching_entry_type_t::send ? left_sends : left_recvs);
  });
  EXPECT_EQ(left_sends, left_recvs);
  for (std::size_t i = 1; i < met.size(); ++i) ASSERT_EQ(met[i], 1) << "value " << i;
}

// One thread per key sends numbered messages, another receives them: the numbers must come in order
// while a third keeps wildcards coming and going that cover none of them.
TEST_P(engines, stress__order_per_key_survives_changes_of_mode) {
  constexpr unsigned EACH = 20000;
  std::atomic<bool> is_done{false};
  std::atomic<int> disorder{0};
  std::vector<std::thread> threads;
  for (int key = 0; key < 2; ++key) {
    threads.emplace_back([&, key] {
      // Receives are not posted ahead, so each finds a message or is taken back.
      for (unsigned next = 1; next <= EACH;) {
        void* const got = engine_->insert_recv({key, 7, BOTH}, as_value(1u << 30));
        if (got != nullptr) {
          if (got != as_value(next)) ++disorder;
          ++next;
        } else if (!engine_->remove_recv({key, 7, BOTH}, as_value(1u << 30))) {
          ++next;  // a message took it meanwhile
        } else {
          std::this_thread::yield();
        }
      }
    });
    threads.emplace_back([&, key] {
      for (unsigned i = 1; i <= EACH; ++i) engine_->insert_send({key, 7, BOTH}, as_value(i));
    });
  }
  std::thread wild([&] {
    while (!is_done.load(std::memory_order_relaxed)) {
      void* const mine = as_value(1u << 29);
      if (engine_->insert_recv({99, ANY_TAG, BOTH}, mine) == nullptr)
        engine_->remove_recv({99, ANY_TAG, BOTH}, mine);
      std::this_thread::yield();
    }
  });
  for (auto& t : threads) t.join();
  is_done = true;
  wild.join();
  EXPECT_EQ(disorder, 0);
  EXPECT_EQ(engine_->size(), 0u);
}
