// Requests of which a byte was changed, and rings of garbage: nothing outside of the regions that
// keys name is written, nothing hangs, and what is posted ends, done or with an error.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/device_code/wqe_inputs.hpp"
#include "tests/support/sanitized.hpp"
#include "tests/support/seed.hpp"
#include "tests/unit/device/pair.hpp"

namespace {

using namespace lci::device;
using namespace lci::test;
using lci::wqe::opcode;
using lci::wqe::status;
namespace wqe = lci::wqe;

constexpr opcode ALL[] = {opcode::nop,       opcode::send_inval,       opcode::rdma_write,
                          opcode::send,      opcode::rdma_write_imm,   opcode::send_imm,
                          opcode::rdma_read, opcode::atomic_cs,        opcode::atomic_fa,
                          opcode::dump,      opcode::atomic_masked_cs, opcode::atomic_masked_fa};

// A right request in block 0; its octowords.
std::uint32_t write_right(pair& p, opcode op, bool is_inline) {
  const wqe::sge one = p.entry(64, is_atomic(op) ? 8 : 40);
  const unsigned char payload[28] = {1, 2, 3};
  wqe::send_request r = request_for(op);
  r.qpn = pair::QPN;
  r.raddr = p.remote.address() + 64;
  r.rkey = p.rkey;
  r.imm = op == opcode::send_inval ? p.landing_key : 9;
  r.atomic = {1, 2, 3, 4, 8};
  if (is_inline) {
    r.inline_data = payload;
    r.inline_length = sizeof(payload);
  } else if (op != opcode::nop) {
    r.entries = &one;
    r.entry_count = 1;
  }
  wqe::written_wqe out;
  EXPECT_EQ(wqe::write_send_wqe(p.queue.ring, 0, r, {}, &out), status::ok);
  return out.octowords;
}

// Rings for `blocks` blocks and looks at what came of it. The ring itself is only read.
void run(pair& p, std::uint64_t blocks) {
  const std::vector<std::byte> before(p.ring.data(), p.ring.data() + p.ring.size());
  p.target = blocks;
  for (int i = 0; i < 8; ++i) p.card->progress_st();
  ASSERT_EQ(std::memcmp(before.data(), p.ring.data(), before.size()), 0);
  ASSERT_TRUE(p.is_whole());
}

TEST(card_queue_hostile, progress__each_byte_of_each_request_changed) {
  int cases = 0, done = 0, failed = 0, waiting = 0;
  for (const bool is_inline : {false, true}) {
    for (const opcode op : ALL) {
      if (is_inline && !takes_inline(op)) continue;
      pair measure;
      const std::uint32_t bytes = write_right(measure, op, is_inline) * wqe::OCTOWORD_SIZE;
      for (std::uint32_t at = 0; at < bytes; ++at) {
        for (const unsigned change : {1u, 2u, 4u, 8u, 16u, 32u, 64u, 128u, 255u}) {
          pair p(8);
          write_right(p, op, is_inline);
          p.post_receive(0, 64);
          p.ring.data()[at] ^= static_cast<std::byte>(change);
          run(p, 1);
          wqe::completion c;
          const status s = p.poll(&c);
          done += s == status::ok || (s == status::nothing && p.card->next() == 1);
          failed += s == status::failed;
          waiting += s == status::nothing && p.card->next() == 0;
          EXPECT_EQ(p.card->has_failed(), s == status::failed);
          ++cases;
        }
        if (testing::Test::HasFatalFailure()) return;
      }
    }
  }
  EXPECT_EQ(done + failed + waiting, cases);
  EXPECT_EQ(waiting, 0);  // there was a receive for those that became a send
  EXPECT_GT(cases, 6000);
  EXPECT_GT(failed, 1000);
  EXPECT_GT(done, 1000);
}

// The guards see a byte: the search above can fail.
TEST(card_queue_hostile, guarded__sees_a_byte_on_either_side) {
  guarded g(64);
  EXPECT_TRUE(g.is_whole());
  g.data()[64] = std::byte{1};
  EXPECT_FALSE(g.is_whole());
  guarded h(64);
  h.data()[-1] = std::byte{1};
  EXPECT_FALSE(h.is_whole());
  guarded i(64, 7);
  i.data()[0] = i.data()[63] = std::byte{1};
  EXPECT_TRUE(i.is_whole());
}

// An octoword that says a place of the other side, or a piece of the own one, mostly inside.
void make_right(pair& p, random_numbers& random, bool is_remote, std::uint32_t* words) {
  const std::uint64_t place =
      (is_remote ? p.remote.address() : p.local.address()) + random.below(3072);
  const auto high = static_cast<std::uint32_t>(place >> 32);
  const auto low = static_cast<std::uint32_t>(place);
  words[0] = is_remote ? high : random.below(2048);
  words[1] = is_remote ? low : p.lkey;
  words[2] = is_remote ? p.rkey : high;
  words[3] = is_remote ? 0 : low;
}

bool has_ones(guarded& g) {
  return std::find(g.data(), g.data() + g.size(), std::byte{1}) != g.data() + g.size();
}

TEST(card_queue_hostile, progress__rings_of_random_bytes_with_keys_that_are_right) {
  random_numbers random(test_seed(), 5);
  constexpr int ROUNDS = IS_SANITIZED ? 200 : 5000;
  int moved = 0;
  for (int round = 0; round < ROUNDS; ++round) {
    pair p(8);
    std::memset(p.local.data(), 1, p.local.size());
    for (std::uint32_t block = 0; block < 8; ++block) {
      std::uint32_t words[16];
      const std::uint64_t places[] = {p.local.address(), p.remote.address(), p.landing.address()};
      const std::uint32_t keys[] = {p.lkey, p.rkey, p.landing_key};
      for (std::uint32_t w = 0; w < 16; w += 4) {
        const std::uint64_t place = places[random.below(3)] + random.below(8192) - 2048;
        words[w] =
            random.below(2) == 0 ? random.below(5000) : static_cast<std::uint32_t>(place >> 32);
        words[w + 1] =
            random.below(2) == 0 ? keys[random.below(3)] : static_cast<std::uint32_t>(place);
        words[w + 2] =
            random.below(2) == 0 ? keys[random.below(3)] : static_cast<std::uint32_t>(place >> 32);
        words[w + 3] = static_cast<std::uint32_t>(place);
        if (random.below(4) != 0) make_right(p, random, w == 4 && random.below(2) == 0, words + w);
      }
      words[0] = block << 8 | static_cast<std::uint32_t>(ALL[random.below(12)]);
      words[1] = pair::QPN << 8 | (random.below(4) != 0 ? 2 + random.below(2) : random.below(9));
      for (std::uint32_t& w : words) w = wqe::be32(w);
      std::memcpy(p.ring.data() + block * 64, words, 64);
    }
    if (random.below(2) == 0) p.post_receive(0, p.landing.size());
    p.post_receive(random.below(4096), random.below(8192));
    run(p, 8);
    if (testing::Test::HasFatalFailure()) return;
    moved += has_ones(p.remote) || has_ones(p.landing);
  }
  EXPECT_GT(moved, 0);  // not all of it is refused
}

TEST(card_queue_hostile, progress__receive_entries_with_each_byte_changed) {
  int cases = 0;
  for (std::uint32_t at = 0; at < 32; ++at) {
    for (const unsigned change : {1u, 2u, 4u, 8u, 16u, 32u, 64u, 128u, 255u}) {
      pair p(8);
      p.post_receive(4096 - 40, 40);
      p.recv_ring.data()[at] ^= static_cast<std::byte>(change);
      ASSERT_EQ(p.post(request_for(opcode::send), 0, 40), status::ok);
      run(p, 1);
      EXPECT_EQ(p.card->next(), 1u);
      ++cases;
    }
  }
  EXPECT_EQ(cases, 288);
}

}  // namespace
