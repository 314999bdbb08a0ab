// Receives that are offered to their senders: who gets them, in which order, and what forged or
// late messages about them do.
#include <gtest/gtest.h>

#include <vector>

#include "lci/errors.hpp"
#include "tests/support/race_hook.hpp"
#include "tests/unit/proto/preposted_world.hpp"

using namespace lci::test;  // NOLINT: a test reads better without the prefix
namespace proto = lci::proto;
namespace wire = lci::proto::wire;
using lci::mem::mem_kind;
using wire::kind;

TEST_F(preposted_receives, send_that_finds_one__needs_nothing_of_its_receiver) {
  exchange first(w, verb::send, mem_kind::device, mem_kind::device, 5000);
  first.start();
  step_sender();
  EXPECT_FALSE(first.there.holds(first.seed)) << "the first request has to be answered";
  EXPECT_TRUE(w.step_until([&] { return first.is_over(); }));
  const auto there = receive(mem_kind::device, 7);
  step_sender();
  const auto here = send(mem_kind::device, 7, 3, 5000);
  step_sender();
  EXPECT_EQ(here->told.seen.size(), 1u);
  EXPECT_TRUE(there->told.seen.empty());
  w.step(5);
  EXPECT_TRUE(holds(*there, 3, 5000));
  EXPECT_EQ(there->told.seen[0].rank, 0);
  EXPECT_EQ(there->told.seen[0].tag, 7u);
  EXPECT_EQ(there->told.seen[0].buffer, there->buffer.at());
  EXPECT_EQ(claims, 1u);
  expect_clean();
}

TEST_F(preposted_receives, message_that_comes_first__takes_the_receive_and_the_claim_the_next) {
  encourage();
  const auto r1 = receive(mem_kind::device, 7), r2 = receive(mem_kind::device, 7);
  step_sender();
  const auto a = send(mem_kind::host, 7, 1, 100);
  const auto b = send(mem_kind::device, 7, 2, 6000);
  EXPECT_EQ(claims, 0u) << "the first message is still on its way";
  w.step(50);
  EXPECT_TRUE(holds(*r1, 1, 100));
  EXPECT_TRUE(holds(*r2, 2, 6000));
  expect_clean();
}

TEST_F(preposted_receives, stale_one__is_passed_over_for_the_next) {
  encourage();
  const auto r1 = receive(mem_kind::device, 7), r2 = receive(mem_kind::device, 7);
  step_sender();
  const auto a = send(mem_kind::host, 7, 1, 100);
  w.step(50);
  const auto b = send(mem_kind::device, 7, 2, 6000);
  EXPECT_EQ(claims, 1u);
  w.step(50);
  EXPECT_TRUE(holds(*r1, 1, 100));
  EXPECT_TRUE(holds(*r2, 2, 6000));
  expect_clean();
}

// The message is taken up by the receiver when the claim has been made and not been told.
TEST_F(preposted_receives, claim_that_was_faster__leaves_the_message_the_next_receive) {
  encourage();
  const auto r1 = receive(mem_kind::device, 7), r2 = receive(mem_kind::device, 7);
  step_sender();
  const auto b = send(mem_kind::device, 7, 2, 6000);
  EXPECT_EQ(claims, 1u);
  const std::byte data[100] = {};
  EXPECT_EQ(
      w[1].matcher->on_eager(w[1].queues->host, {.rank = 0, .data = data, .size = sizeof(data)}, 7,
                             lci::matching_policy_t::rank_tag),
      lci::net::verdict::taken);
  w.step(50);
  EXPECT_TRUE(holds(*r1, 2, 6000));
  EXPECT_EQ(r2->told.seen.size(), 1u);
  EXPECT_EQ(r2->told.seen[0].size, sizeof(data));
  expect_clean();
}

TEST_F(preposted_receives, receive_that_nobody_offers__is_used_before_later_ones) {
  encourage();
  const auto host = receive(mem_kind::host, 7);
  const auto gpu = receive(mem_kind::device, 7), other = receive(mem_kind::device, 8);
  step_sender();
  const auto a = send(mem_kind::device, 7, 1, 3000);
  const auto b = send(mem_kind::device, 8, 2, 3000);
  const auto c = send(mem_kind::device, 7, 3, 3000);
  w.step(50);
  EXPECT_TRUE(holds(*host, 1, 3000));
  EXPECT_TRUE(holds(*other, 2, 3000));
  EXPECT_TRUE(holds(*gpu, 3, 3000));
  EXPECT_LE(claims, 1u) << "only the receive of the other tag may be claimed";
  expect_clean();
}

TEST_F(preposted_receives, receive_with_a_wildcard_that_waits__is_used_before) {
  encourage();
  const auto any = receive(mem_kind::host, 7, ROOM, lci::ANY_SOURCE);
  const auto exact = receive(mem_kind::device, 7);
  step_sender();
  const auto a = send(mem_kind::device, 7, 1, 3000);
  EXPECT_EQ(claims, 0u);
  w.step(50);
  const auto b = send(mem_kind::device, 7, 2, 3000);
  w.step(50);
  EXPECT_TRUE(holds(*any, 1, 3000));
  EXPECT_TRUE(holds(*exact, 2, 3000));
  expect_clean();
}

TEST_F(preposted_receives, message_that_is_too_large__is_the_error_that_it_always_is) {
  encourage();
  const auto small = receive(mem_kind::device, 7, 100), large = receive(mem_kind::device, 7);
  step_sender();
  const auto a = send(mem_kind::device, 7, 1, 3000);
  EXPECT_EQ(claims, 0u);
  w.step(50);
  ASSERT_EQ(w.thrown.size(), 1u);
  EXPECT_THROW(std::rethrow_exception(w.thrown[0]), lci::truncation_error);
  w.thrown.clear();
  EXPECT_TRUE(small->told.seen.empty());
  EXPECT_TRUE(holds(*large, 1, 3000));
  expect_clean();
}

TEST_F(preposted_receives, more_receives_than_can_be_offered__are_used_in_their_order) {
  encourage();
  std::vector<std::unique_ptr<end>> receives, sends;
  for (std::size_t i = 0; i < 2 * proto::gpu::preposted_receives::OPEN; ++i)
    receives.push_back(receive(mem_kind::device, 7));
  step_sender();
  for (std::size_t i = 0; i < receives.size(); ++i) {
    sends.push_back(send(mem_kind::device, 7, static_cast<unsigned>(i), 3000));
    if (i % 3 == 0) w.step(2);
    // New receives wait behind those that were never offered.
    if (i < 8) receives.push_back(receive(mem_kind::device, 7));
  }
  for (std::size_t i = sends.size(); i < receives.size(); ++i)
    sends.push_back(send(mem_kind::device, 7, static_cast<unsigned>(i), 3000));
  w.step(200);
  for (std::size_t i = 0; i < receives.size(); ++i)
    EXPECT_TRUE(holds(*receives[i], static_cast<unsigned>(i), 3000)) << i;
  EXPECT_GE(claims, proto::gpu::preposted_receives::OPEN);
  expect_clean();
}

TEST_F(preposted_receives, that_nobody_uses__are_made_no_more) {
  encourage();
  std::size_t told = 0;
  for (int i = 0; i < 6; ++i) {
    const auto before = messages();
    const auto there = receive(mem_kind::device, 7);
    told += messages() - before;
    const auto here = send(mem_kind::host, 7, 1, 100);
    w.step(30);
    EXPECT_TRUE(holds(*there, 1, 100));
  }
  EXPECT_EQ(told, 2u);
  // Now and then a request brings a new attempt.
  std::size_t again = 0;
  for (int i = 0; i < 40; ++i) {
    exchange one(w, verb::send, mem_kind::device, mem_kind::device, 100);
    const auto before = messages();
    one.receive();
    again += messages() - before;
    one.start();
    EXPECT_TRUE(w.step_until([&] { return one.is_over(); }));
    w.step(5);
  }
  EXPECT_GE(again, 2u);
  EXPECT_LE(again, 8u);
  expect_clean();
}

TEST_F(preposted_receives, open_ones_and_claimed_ones__may_be_left_behind) {
  encourage();
  const auto r1 = receive(mem_kind::device, 7), r2 = receive(mem_kind::device, 8);
  step_sender();
  const auto a = send(mem_kind::device, 7, 1, 3000);
  EXPECT_EQ(claims, 1u);
  step_sender();  // the bytes are there and the receiver has not heard of it; the world ends here
}

// ---- forged, late and repeated messages ----

TEST_F(preposted_receives, messages_about_none__are_dropped_and_change_nothing) {
  encourage();
  const auto there = receive(mem_kind::device, 7);
  const auto dropped = w[1].queues->engine().dropped.sum();
  const wire::name real{0, 1};
  const std::uint64_t huge = ~std::uint64_t{0};
  int count = 0;
  for (const wire::name name :
       {wire::name{}, wire::name{0, 2}, wire::name{1, 1},
        wire::name{proto::gpu::preposted_receives::OPEN, 1}, wire::name{~0u, ~0u}, real}) {
    // The last is open and nobody has claimed it.
    tell(0, 1, kind::claim, wire::claim{name, 100, 64});
    tell(0, 1, kind::claim, wire::claim{name, huge, huge});
    tell(0, 1, kind::preposted_end, wire::preposted_end{name, 100, 1, 0});
    tell(0, 1, kind::preposted_end, wire::preposted_end{name, huge, 0, 0});
    count += 4;
  }
  tell(0, 1, kind::preposted,
       wire::preposted{{proto::gpu::preposted_receives::OPEN, 1}, {}, 0, 0, 0, 0, 0, 0, 1});
  tell(0, 1, kind::preposted, wire::preposted{{3, 1}, {}, 0, 0, 0, 0, 0, 7, 7});
  EXPECT_EQ(w[1].queues->engine().dropped.sum(), dropped + count + 2);
  step_sender();
  const auto here = send(mem_kind::device, 7, 1, 3000);
  EXPECT_EQ(claims, 1u);
  w.step(50);
  EXPECT_TRUE(holds(*there, 1, 3000));
  expect_clean();
}

TEST_F(preposted_receives, that_name_what_is_not_there__lead_to_a_request) {
  const std::uint64_t huge = ~std::uint64_t{0};
  const end memory(mem_kind::device);
  lci::mem::region region{memory.buffer.at(), ROOM, mem_kind::device, {}};
  std::string why_not;
  region.share = w.gpu(1).share(region.address, ROOM, why_not);
  const auto made = w[1].core.regions.insert(region);
  const wire::name good{made.slot, made.generation};
  struct {
    wire::name region;
    std::uint64_t offset, word;
  } const forged[] = {
      {{}, 0, 64},     {{99, 1}, 0, 64}, {good, huge, 64}, {good, 1, 64},
      {good, 0, huge}, {good, 0, 3},     {good, 0, 4096},  // a word of another value, if it is one
  };
  std::uint64_t number = 0;
  for (const auto& f : forged) {
    const auto there = receive(mem_kind::device, 7);
    ++number;
    tell(1, 0, kind::preposted,
         wire::preposted{{3, 9},
                         f.region,
                         f.offset,
                         ROOM,
                         7,
                         f.word,
                         static_cast<std::uint32_t>(w[1].engine_rcomp()),
                         0,
                         number});
    const auto here = send(mem_kind::device, 7, 1, ROOM);
    EXPECT_EQ(claims, 0u);
    w.step(50);
    EXPECT_TRUE(holds(*there, 1, ROOM)) << f.offset << " " << f.word;
  }
  w[1].core.regions.erase(made);
  expect_clean();
}

// The claim and the leave are read in one round, before the flag is looked at.
TEST_F(preposted_receives, claim_of_who_takes_leave__brings_the_bytes_that_are_there) {
  encourage();
  const auto there = receive(mem_kind::device, 7);
  step_sender();
  const auto here = send(mem_kind::device, 7, 2, 6000);
  EXPECT_EQ(claims, 1u);
  step_sender();
  ASSERT_EQ(here->told.seen.size(), 1u);
  ASSERT_TRUE(there->told.seen.empty());
  w[0].fabric->leave();
  w.step(20);
  ASSERT_TRUE(w[1].core.peers.has_ended(0));
  EXPECT_TRUE(holds(*there, 2, 6000));
  expect_clean();
}

// Another thread notices the end of the rank between our look at the flag and what it brings.
TEST_F(preposted_receives, claim_whose_flag_is_acted_on__brings_the_bytes_after_the_end) {
  if (!has_race_points) GTEST_SKIP() << RACE_POINTS_MISSING;
  encourage();
  const auto there = receive(mem_kind::device, 7);
  step_sender();
  const auto here = send(mem_kind::device, 7, 2, 6000);
  step_sender();
  race_hook hook(
      "flags.poll.before_act",
      [&] { w[1].queues->gpu.on_peer_ended(0, proto::peer_end::all_here); }, 1);
  w.step(20);
  ASSERT_EQ(hook.hits(), 1);
  EXPECT_TRUE(holds(*there, 2, 6000));
  expect_clean();
}

// What the sender would say of it is read no more.
class failed_claims : public preposted_receives {
 protected:
  void expect_no_message(proto::peer_end how) {
    encourage();
    const auto there = receive(mem_kind::device, 7);
    step_sender();
    const auto here = send(mem_kind::device, 7, 2, 6000);
    ASSERT_EQ(claims, 1u);
    // Comes before the sender's own claim, and names a word of the test.
    proto::gpu::flag_words& words = w[0].shared.gpu.flags;
    proto::gpu::flag_word* const word = words.take();
    ASSERT_NE(word, nullptr);
    tell(0, 1, kind::claim, wire::claim{{0, 1}, 6000, words.place_of(word)});
    ASSERT_FALSE(w[1].queues->gpu.preposted().is_quiet());
    word->store(wire::FLAG_VOID, std::memory_order_relaxed);
    w[1].queues->gpu.on_peer_ended(0, how);
    EXPECT_TRUE(w[1].queues->gpu.preposted().is_quiet());
    expect_clean();
    EXPECT_TRUE(there->told.seen.empty());
    proto::gpu::flag_words::give(word);
  }
};

TEST_F(failed_claims, of_who_has_left__end_the_receive) {
  expect_no_message(proto::peer_end::all_here);
}

TEST_F(failed_claims, of_who_has_failed__end_the_receive) {
  expect_no_message(proto::peer_end::failed);
}
