// Do put, put with immediate and get move exactly the bytes that they name, and nothing when they
// must not?
#include <gtest/gtest.h>

#include <cstring>

#include "tests/contract/suite.hpp"

namespace lci::test {
namespace {

constexpr std::byte CANARY{0xc5};
constexpr std::size_t MARGIN = 256;  // bytes on both sides of a target that nobody may touch

// Memory of rank 1 that rank 0 may reach.
struct target {
  target(group& g, std::size_t size) : g_(g), bytes(size + 2 * MARGIN, CANARY) {
    key = g.at(1).expose(data(), size);
    g.learn(0, 1, key);
  }
  ~target() { g_.at(1).hide(key); }
  std::byte* data() { return bytes.data() + MARGIN; }
  // Everything outside [offset, offset + size) is as it was.
  bool untouched_around(std::size_t offset, std::size_t size) {
    const auto is_canary = [](std::byte b) { return b == CANARY; };
    const auto first = bytes.begin() + static_cast<std::ptrdiff_t>(MARGIN + offset);
    return std::all_of(bytes.begin(), first, is_canary) &&
           std::all_of(first + static_cast<std::ptrdiff_t>(size), bytes.end(), is_canary);
  }
  group& g_;
  std::vector<std::byte> bytes;
  net::remote_key key;
};

net::net_op op_to(target& t, void* buffer, std::size_t size, std::uint64_t offset, op_fate& fate) {
  net::net_op op;
  op.rank = 1;
  op.buffer = buffer;
  op.size = size;
  op.remote = t.key;
  op.remote_offset = offset;
  op.context = &fate;
  return op;
}

using post_fn = errorcode_t (net::endpoint::*)(const net::net_op&) noexcept;

}  // namespace

TEST_P(backend_contract, check_remote__knows_sizes_and_unknown_keys) {
  using answer = net::remote_view::answer;
  group& g = open();
  target t(g, 1000);
  const net::remote_view view = g.at(0).fabric->check_remote(1, t.key);
  EXPECT_EQ(view.what, answer::ok);
  EXPECT_EQ(view.size, 1000u);
  // A network may have to ask.
  const auto look = [&](net::remote_key key) {
    answer said = answer::not_connected;
    g.until(
        [&] {
          said = g.at(0).fabric->check_remote(1, key).what;
          return said != answer::not_connected;
        },
        "an answer about a key");
    return said;
  };
  EXPECT_EQ(look({0, 0}), answer::unknown_key);
  EXPECT_EQ(look({t.key.slot, t.key.generation + 1}), answer::unknown_key);
  EXPECT_EQ(look({t.key.slot + 100, t.key.generation}), answer::unknown_key);
  EXPECT_EQ(look({0xffffffffu, 0xffffffffu}), answer::unknown_key);
}

TEST_P(backend_contract, put__every_size_and_nothing_beside_it) {
  group& g = open();
  for (std::size_t size : sizes_up_to(std::min(g.caps().max_rma, std::size_t{1} << 20), g.caps())) {
    for (std::size_t offset : {std::size_t{0}, std::size_t{1}, std::size_t{777}}) {
      target t(g, size + 800);
      op_fate fate;
      std::vector<std::byte> source = pattern(size, static_cast<std::uint32_t>(size + offset));
      const net::net_op op = op_to(t, source.data(), size, offset, fate);
      const errorcode_t answer = g.post([&] { return g.at(0).to().put(op); });
      if (answer == errorcode_t::posted) {
        ASSERT_TRUE(g.until([&] { return fate.signals() != 0; }, "a completion"));
      }
      // Complete means visible at the target.
      EXPECT_EQ(size == 0 ? 0 : std::memcmp(t.data() + offset, source.data(), size), 0)
          << size << " at " << offset;
      EXPECT_TRUE(t.untouched_around(offset, size)) << size << " at " << offset;
      g.settle();
      expect_fate(answer, fate);
    }
  }
}

// Networks need not have the short way; what they accept is a put like any other.
TEST_P(backend_contract, put_inline__done_is_a_put_and_all_else_is_nothing) {
  group& g = open();
  constexpr std::size_t SIZE = 256;
  target t(g, SIZE);
  std::vector<std::byte> source = pattern(SIZE, 5);
  std::uint32_t heard = 0;
  g.at(1).seen().on_imm = [&](int rank, std::uint32_t imm) {
    heard += rank == 0 && imm == 77;
    EXPECT_EQ(std::memcmp(t.data() + 3, source.data(), 24), 0) << "the immediate came first";
  };
  const auto put = [&](net::small_put what) {
    what.rank = 1;
    what.data = source.data();
    return g.at(0).to().put_inline(what) == errorcode_t::done;
  };
  // The way may be open only after a put.
  op_fate fate;
  const net::net_op op = op_to(t, source.data(), 8, 0, fate);
  g.post([&] { return g.at(0).to().put(op); });
  g.settle();
  std::fill(t.bytes.begin(), t.bytes.end(), CANARY);
  net::small_put what{.remote = t.key, .offset = 3, .size = 24, .has_imm = false, .imm = 0};
  const bool has_short_way = put(what);
  g.settle();
  if (has_short_way) {
    EXPECT_EQ(std::memcmp(t.data() + 3, source.data(), 24), 0);
  }
  EXPECT_TRUE(has_short_way ? t.untouched_around(3, 24) : t.untouched_around(0, 0));
  what.has_imm = true;
  what.imm = 77;
  const bool has_told = put(what);
  g.settle();
  EXPECT_EQ(heard, has_told ? 1u : 0u);
  std::fill(t.bytes.begin(), t.bytes.end(), CANARY);
  what.has_imm = false;
  for (const auto& [offset, size] : {std::pair<std::uint64_t, std::size_t>{SIZE, 1},
                                     {SIZE - 7, 8},
                                     {~std::uint64_t{0}, 8},
                                     {~std::uint64_t{0} - 6, 8},
                                     {0, SIZE + 1}}) {
    what.offset = offset;
    what.size = size;
    EXPECT_FALSE(put(what)) << size << " bytes at " << offset;
  }
  what.offset = 0;
  what.size = 8;
  for (const net::remote_key wrong : {net::remote_key{0, 0},
                                      {t.key.slot, t.key.generation + 1},
                                      {t.key.slot + 100, t.key.generation},
                                      {0xffffffffu, 0xffffffffu}}) {
    what.remote = wrong;
    EXPECT_FALSE(put(what));
  }
  g.settle();
  EXPECT_TRUE(t.untouched_around(0, 0));
}

TEST_P(backend_contract, get__every_size_and_nothing_beside_it) {
  group& g = open();
  for (std::size_t size : sizes_up_to(std::min(g.caps().max_rma, std::size_t{1} << 20), g.caps())) {
    for (std::size_t offset : {std::size_t{0}, std::size_t{1}, std::size_t{777}}) {
      target t(g, size + 800);
      op_fate fate;
      const auto source = pattern(size + 800, static_cast<std::uint32_t>(size));
      std::copy(source.begin(), source.end(), t.data());
      std::vector<std::byte> local(size + 2 * MARGIN, CANARY);
      const net::net_op op = op_to(t, local.data() + MARGIN, size, offset, fate);
      const errorcode_t answer = g.post([&] { return g.at(0).to().get(op); });
      if (answer == errorcode_t::posted) {
        ASSERT_TRUE(g.until([&] { return fate.signals() != 0; }, "a completion"));
      }
      EXPECT_EQ(size == 0 ? 0 : std::memcmp(local.data() + MARGIN, source.data() + offset, size), 0)
          << size << " at " << offset;
      const auto is_canary = [](std::byte b) { return b == CANARY; };
      EXPECT_TRUE(std::all_of(local.begin(), local.begin() + MARGIN, is_canary));
      EXPECT_TRUE(std::all_of(local.end() - MARGIN, local.end(), is_canary));
      g.settle();
      expect_fate(answer, fate);
    }
  }
}

TEST_P(backend_contract, put_imm__the_data_is_there_when_the_immediate_is_seen) {
  group& g = open();
  if (!g.caps().write_with_immediate) GTEST_SKIP() << "no write with immediate";
  constexpr std::uint32_t COUNT = 200;
  constexpr std::size_t SIZE = 3000;
  target t(g, COUNT * SIZE);
  std::uint32_t good = 0;
  g.at(1).seen().on_imm = [&](int rank, std::uint32_t imm) {
    const auto expected = pattern(SIZE, imm);
    good += rank == 0 && std::memcmp(t.data() + imm * SIZE, expected.data(), SIZE) == 0;
  };
  std::deque<op_fate> fates;
  std::vector<errorcode_t> answers;
  std::vector<std::vector<std::byte>> sources;
  for (std::uint32_t i = 0; i < COUNT; ++i) {
    sources.push_back(pattern(SIZE, i));
    net::net_op op = op_to(t, sources.back().data(), SIZE, i * SIZE, fates.emplace_back());
    op.imm = i;
    answers.push_back(g.post([&] { return g.at(0).to().put_imm(op); }));
  }
  ASSERT_TRUE(g.until([&] { return g.at(1).seen().immediates() >= COUNT; }, "all immediates"));
  g.settle();
  EXPECT_EQ(g.at(1).seen().immediates(), COUNT);
  EXPECT_EQ(good, COUNT) << "an immediate overtook its data";
  for (std::uint32_t i = 0; i < COUNT; ++i) expect_fate(answers[i], fates[i]);
  g.at(1).seen().on_imm = nullptr;
}

TEST_P(backend_contract, put_imm__of_size_0_is_an_immediate_alone) {
  group& g = open();
  if (!g.caps().write_with_immediate) GTEST_SKIP() << "no write with immediate";
  target t(g, 64);
  op_fate fate;
  net::net_op op = op_to(t, nullptr, 0, 64, fate);
  op.imm = 0xfedcba98u;
  const errorcode_t answer = g.post([&] { return g.at(0).to().put_imm(op); });
  ASSERT_TRUE(g.until([&] { return g.at(1).seen().immediates() == 1; }, "the immediate"));
  g.settle();
  EXPECT_EQ(g.at(1).seen().immediate_list()[0], (std::pair<int, std::uint32_t>{0, 0xfedcba98u}));
  EXPECT_TRUE(t.untouched_around(0, 0));
  expect_fate(answer, fate);
}

TEST_P(backend_contract, fence__a_message_behind_puts_finds_their_data) {
  group& g = open();
  constexpr std::size_t SIZE = 40000;
  const std::size_t piece = std::min(g.caps().max_rma, std::size_t{10000});
  target t(g, SIZE);
  for (std::uint32_t round = 0; round < 20; ++round) {
    bool visible = false;
    auto source = pattern(SIZE, round);
    g.at(1).seen().on_arrival = [&](const net::arrival&) {
      visible = std::memcmp(t.data(), source.data(), SIZE) == 0;
      return net::verdict::taken;
    };
    std::deque<op_fate> fates;
    for (std::size_t at = 0; at < SIZE; at += piece) {
      const net::net_op put =
          op_to(t, source.data() + at, std::min(piece, SIZE - at), at, fates.emplace_back());
      g.post([&] { return g.at(0).to().put(put); });
    }
    net::net_op note;
    note.rank = 1;
    note.buffer = &round;
    note.size = sizeof round;
    note.fence = true;
    note.context = &fates.emplace_back();
    g.post([&] { return g.at(0).to().send(note); });
    ASSERT_TRUE(g.until([&] { return g.at(1).seen().arrived() == round + 1; }, "the message"));
    EXPECT_TRUE(visible) << "the message overtook a put, round " << round;
    g.settle();
  }
  g.at(1).seen().on_arrival = nullptr;
}

// Wrong targets: nothing is written or read, and the context hears of it once.
TEST_P(backend_contract, wrong_target__writes_nothing_and_is_reported) {
  group& g = open();
  target t(g, 1000);
  std::vector<std::byte> stale_memory(1000, CANARY);
  const net::remote_key stale = g.at(1).expose(stale_memory.data(), stale_memory.size());
  g.learn(0, 1, stale);
  g.at(1).hide(stale);

  struct wrong {
    const char* what;
    net::remote_key key;
    std::uint64_t offset;
    std::size_t size;
  };
  const wrong cases[] = {{"one byte past the end", t.key, 901, 100},
                         {"starts behind the end", t.key, 1001, 1},
                         {"offset that wraps around", t.key, ~std::uint64_t{0} - 10, 100},
                         {"key of nothing", {0, 0}, 0, 100},
                         {"generation from the future", {t.key.slot, t.key.generation + 1}, 0, 100},
                         {"slot never used", {t.key.slot + 500, 1}, 0, 100},
                         {"slot outside the table", {0xfffffff0u, 1}, 0, 100},
                         {"key of a registration that is gone", stale, 0, 100}};
  for (post_fn post : {&net::endpoint::put, &net::endpoint::get, &net::endpoint::put_imm}) {
    if (post == &net::endpoint::put_imm && !g.caps().write_with_immediate) continue;
    for (const wrong& w : cases) {
      if (w.key.slot == stale.slot && !g.at(0).fabric->caps_of(1).outlives_stale_keys) continue;
      std::vector<std::byte> local = pattern(w.size, 5);
      op_fate fate;
      net::net_op op = op_to(t, local.data(), w.size, w.offset, fate);
      op.remote = w.key;
      const errorcode_t answer = g.post([&] { return (g.at(0).to().*post)(op); });
      EXPECT_EQ(answer, errorcode_t::posted) << w.what;
      ASSERT_TRUE(g.until([&] { return fate.signals() != 0; }, w.what));
      g.settle();
      EXPECT_EQ(fate.failed.load(std::memory_order_relaxed), 1) << w.what;
      EXPECT_EQ(fate.completed.load(std::memory_order_relaxed), 0) << w.what;
      EXPECT_TRUE(t.untouched_around(0, 0)) << w.what;
      EXPECT_TRUE(local == pattern(w.size, 5)) << w.what << ": a get wrote into the local buffer";
      EXPECT_EQ(g.at(1).seen().immediates(), 0u) << w.what;
    }
  }
  // The connection has survived all that.
  const std::uint32_t word = 1;
  g.post([&] { return g.at(0).to().send_inline(1, 1, nullptr, 0, &word, sizeof word); });
  ASSERT_TRUE(g.until([&] { return g.at(1).seen().arrived() == 1; }, "a message afterwards"));
}

TEST_P(backend_contract, stale_key__takes_the_connection_along_where_cards_check) {
  group& g = open();
  if (g.at(0).fabric->caps_of(1).outlives_stale_keys)
    GTEST_SKIP() << "the backend looks before it writes";
  std::vector<std::byte> memory(1000, CANARY);
  const net::remote_key stale = g.at(1).expose(memory.data(), memory.size());
  g.learn(0, 1, stale);
  g.at(1).hide(stale);
  op_fate fate;
  std::vector<std::byte> local = pattern(100, 5);
  net::net_op op;
  op.rank = 1;
  op.buffer = local.data();
  op.size = local.size();
  op.remote = stale;
  op.context = &fate;
  // Without a poll: rank 0 must not hear of the withdrawal before.
  errorcode_t answer = errorcode_t::retry;
  for (int i = 0; i < 100 && is_retry(answer); ++i) answer = g.at(0).to().put(op);
  EXPECT_EQ(answer, errorcode_t::posted);
  ASSERT_TRUE(g.until([&] { return fate.signals() != 0; }, "the failure"));
  EXPECT_EQ(fate.failed.load(std::memory_order_relaxed), 1);
  EXPECT_TRUE(std::all_of(memory.begin(), memory.end(), [](std::byte b) { return b == CANARY; }));
  ASSERT_EQ(g.at(0).seen().gone().size(), 1u);
  EXPECT_EQ(g.at(0).seen().gone()[0].rank, 1);
  EXPECT_FALSE(g.at(0).seen().gone()[0].orderly);
}

TEST_P(backend_contract, one_sided__needs_no_help_from_the_target) {
  group& g = open();
  if (!g.caps().one_sided) GTEST_SKIP() << "the backend needs the target to poll";
  target t(g, 70000);
  auto source = pattern(70000, 9);
  std::vector<std::byte> back(70000);
  op_fate put_fate;
  op_fate get_fate;
  const auto run = [&](post_fn post, void* buffer, op_fate& fate) {
    const std::size_t piece = std::min(g.caps().max_rma, source.size());
    errorcode_t answer = errorcode_t::retry;
    // Only rank 0 polls from here on.
    for (int i = 0; i < 1000000 && is_retry(answer); ++i) {
      answer = (g.at(0).to().*post)(op_to(t, buffer, piece, 0, fate));
      if (is_retry(answer)) g.at(0).poll();
    }
    for (int i = 0; i < 1000000 && answer == errorcode_t::posted && fate.signals() == 0; ++i)
      g.at(0).poll();
    expect_fate(answer, fate);
    return piece;
  };
  const std::size_t put_bytes = run(&net::endpoint::put, source.data(), put_fate);
  EXPECT_EQ(std::memcmp(t.data(), source.data(), put_bytes), 0);
  const std::size_t got_bytes = run(&net::endpoint::get, back.data(), get_fate);
  EXPECT_EQ(std::memcmp(back.data(), source.data(), got_bytes), 0);
}

TEST_P(backend_contract, rma__with_oneself) {
  group& g = open();
  std::vector<std::byte> memory(1000, CANARY);
  const net::remote_key key = g.at(0).expose(memory.data(), memory.size());
  g.learn(0, 0, key);
  auto source = pattern(500, 1);
  std::vector<std::byte> back(500);
  net::net_op op;
  op.rank = 0;
  op.size = 500;
  op.remote = key;
  op.remote_offset = 250;
  op_fate put_fate;
  op.buffer = source.data();
  op.context = &put_fate;
  const errorcode_t put_answer = g.post([&] { return g.at(0).to().put(op); });
  g.settle();
  expect_fate(put_answer, put_fate);
  EXPECT_EQ(std::memcmp(memory.data() + 250, source.data(), 500), 0);
  op_fate get_fate;
  op.buffer = back.data();
  op.context = &get_fate;
  const errorcode_t get_answer = g.post([&] { return g.at(0).to().get(op); });
  g.settle();
  expect_fate(get_answer, get_fate);
  EXPECT_TRUE(back == source);
  g.at(0).hide(key);
}

}  // namespace lci::test
