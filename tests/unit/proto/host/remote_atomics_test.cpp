// Atomic operations on memory of another rank, over the fake network in all its moods.
#include "lci/proto/host/remote_atomics.hpp"

#include <memory>

#include "lci/errors.hpp"
#include "lci/proto/host/select.hpp"
#include "tests/unit/proto/atomics_world.hpp"

using namespace lci::test;  // NOLINT: a test reads better without the prefix
namespace proto = lci::proto;
namespace wire = lci::proto::wire;
namespace wqe = lci::wqe;
using lci::errorcode_t;
using wqe::opcode;

TEST(remote_atomics, start__every_form_answers_what_was_there) {
  for (const sim_options& mood : moods()) {
    atomics_world w(mood);
    std::uint64_t words[2] = {0, 0x1111};
    const wire::name region = w.name_of(w[1].expose(words, sizeof(words)));
    asked one;
    const auto change = [&](opcode op, const wqe::atomic_operands& with, std::uint64_t before) {
      words[0] = before;
      EXPECT_EQ(w.change(one, region, 0, wqe::change_of(op, with)), atomic_outcome::done);
      EXPECT_EQ(one.old, with.size == 4 ? before & 0xffffffff : before);
      return words[0];
    };
    EXPECT_EQ(change(opcode::atomic_fa, {3, 0, 0, 0, 8}, 5), 8u);
    EXPECT_EQ(change(opcode::atomic_cs, {9, 5, 0, 0, 8}, 5), 9u);
    EXPECT_EQ(change(opcode::atomic_cs, {9, 4, 0, 0, 8}, 5), 5u);
    EXPECT_EQ(change(opcode::atomic_masked_cs, {9, 0, ALL, 0, 8}, 5), 9u) << "a swap";
    EXPECT_EQ(change(opcode::atomic_masked_cs, {0xff00, 0x34, 0xff00, 0xff, 8}, 0x1234), 0xff34u);
    EXPECT_EQ(change(opcode::atomic_masked_fa, {0x101, 0, 0, 0x8080, 8}, 0x10ff), 0x1100u);
    constexpr std::uint64_t HIGH = std::uint64_t{7} << 32;
    EXPECT_EQ(change(opcode::atomic_masked_fa, {1, 0, 0, 0, 4}, HIGH | 0xffffffff), HIGH);
    EXPECT_EQ(change(opcode::atomic_masked_cs, {9, 5, ALL, ALL, 4}, HIGH | 5), HIGH | 9);
    EXPECT_EQ(words[1], 0x1111u);
    w.expect_quiet();
  }
}

TEST(remote_atomics, start__own_rank_too) {
  atomics_world w;
  std::uint64_t word = 40;
  const wire::name region = w.name_of(w[0].expose(&word, sizeof(word)));
  asked one;
  EXPECT_EQ(w.change(one, region, 0, add(2), 0), atomic_outcome::done);
  EXPECT_EQ(one.old, 40u);
  EXPECT_EQ(word, 42u);
  w.expect_quiet();
}

TEST(remote_atomics, start__sums_are_exact_from_all_ranks_and_widths) {
  for (sim_options mood : moods()) {
    constexpr int RANKS = 3, EACH = 60;
    atomics_world w(mood, RANKS);
    struct {
      std::uint64_t wide = 0;
      std::uint32_t low = 0, high = 0;
    } words;
    const wire::name region = w.name_of(w[1].expose(&words, sizeof(words)));
    std::vector<std::unique_ptr<asked>> all;
    for (int i = 0; i < EACH * RANKS; ++i) {
      asked& one = *all.emplace_back(std::make_unique<asked>());
      one.rank = 1;
      one.region = region;
      one.offset = i % 2 == 0 ? 0 : i % 4 == 1 ? 8 : 12;
      one.change = add(i % 2 == 0 ? 1 : 3, i % 2 == 0 ? 8 : 4);
      w.post(i % RANKS, one);
    }
    std::vector<bool> seen(EACH * RANKS / 2);
    for (std::size_t i = 0; i < all.size(); ++i) {
      EXPECT_EQ(w.finish(*all[i]), atomic_outcome::done);
      if (i % 2 != 0) continue;
      ASSERT_LT(all[i]->old, seen.size());
      EXPECT_FALSE(seen[all[i]->old]) << "two requests were told the same";
      seen[all[i]->old] = true;
    }
    EXPECT_EQ(words.wide, EACH * RANKS / 2u);
    EXPECT_EQ(words.low, 3 * EACH * RANKS / 4u);
    EXPECT_EQ(words.high, 3 * EACH * RANKS / 4u);
    w.expect_quiet();
  }
}

TEST(remote_atomics, start__each_refusal_has_its_reason) {
  atomics_world w;
  std::uint64_t words[2] = {1, 2};
  const lci::net::remote_key key = w[1].expose(words, sizeof(words));
  const wire::name region = w.name_of(key);
  asked one;
  for (const wire::name wrong : {wire::name{}, wire::name{region.slot, region.generation + 1},
                                 wire::name{region.slot + 1, 1}, wire::name{0xffffffff, 1}})
    EXPECT_EQ(w.change(one, wrong, 0, add(1)), atomic_outcome::bad_key);
  for (const std::uint64_t outside : {std::uint64_t{9}, std::uint64_t{16}, ALL, ALL - 7})
    EXPECT_EQ(w.change(one, region, outside, add(1)), atomic_outcome::out_of_bounds) << outside;
  EXPECT_EQ(w.change(one, region, 13, add(1, 4)), atomic_outcome::out_of_bounds);
  EXPECT_EQ(w.change(one, region, 4, add(1)), atomic_outcome::misaligned);
  EXPECT_EQ(w.change(one, region, 2, add(1, 4)), atomic_outcome::misaligned);
  w[1].core.regions.erase({region.slot, region.generation});
  EXPECT_EQ(w.change(one, region, 0, add(1)), atomic_outcome::bad_key) << "deregistered";
  EXPECT_EQ(words[0], 1u);
  EXPECT_EQ(words[1], 2u);
  one.rank = 2;
  EXPECT_THROW(w.of(0).start(one), lci::argument_error);
  one.rank = -1;
  EXPECT_THROW(w.of(0).start(one), lci::argument_error);
  one.rank = 1;
  one.change.size = 2;
  EXPECT_THROW(w.of(0).start(one), lci::argument_error);
  w.expect_quiet();
}

// What a put that was done or signalled has written is there when the request is performed.
TEST(remote_atomics, start__behind_a_put_that_is_done) {
  for (sim_options options : {sim_options{}, sim_options{.late = true}, card_options()}) {
    options.caps.orders_puts = true;
    options.max_delay_polls = 3;
    atomics_world w(options);
    struct {
      std::uint64_t data = 0, signal = 0;
    } there;
    const lci::net::remote_key key = w[1].expose(&there, sizeof(there));
    for (std::uint64_t i = 1; i <= 50; ++i) {
      recorder done;
      std::uint64_t value = i;
      errorcode_t code;
      do {
        auto out = w[0].outgoing(1, &value, sizeof(value), 0, 0, &done);
        out.remote = key;
        code = proto::start_put(out);
        if (proto::is_retry(code)) w.step(1);
      } while (proto::is_retry(code));
      if (code != errorcode_t::done)
        for (int n = 0; done.seen.empty() && n < ROUNDS; ++n) w.step(1);
      asked one;
      one.rank = 1;
      one.region = w.name_of(key);
      one.offset = 8;
      one.change = add(1);
      w.post(0, one);
      for (int n = 0; one.times == 0 && n < 20 * ROUNDS; ++n) {
        w.step(1);
        if (there.signal == i) {
          ASSERT_EQ(there.data, i);
        }
      }
      ASSERT_EQ(there.signal, i);
    }
    w.expect_quiet();
  }
}
