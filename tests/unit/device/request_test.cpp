#include "lci/device/request.hpp"

#include <gtest/gtest.h>

#include <cstring>

#include "tests/support/device_code/wqe_inputs.hpp"
#include "tests/support/sanitized.hpp"
#include "tests/support/seed.hpp"

namespace {

using namespace lci::test;
namespace device = lci::device;
namespace wqe = lci::wqe;

constexpr int MANY = IS_SANITIZED ? 5000 : 200000;

struct read_back {
  wqe::octoword copy[wqe::MAX_OCTOWORDS];
  std::uint32_t octowords = 0;
  device::request request;
  wqe::syndrome found{};
};

read_back written_and_read(const send_input& in) {
  send_output out;
  encode(in, &out);
  read_back b;
  const wqe::send_ring ring{out.ring, in.ring_blocks};
  b.octowords = device::octowords_in(*octoword_at(ring, in.index, 0));
  for (std::uint32_t k = 0; k < b.octowords; ++k) b.copy[k] = *octoword_at(ring, in.index, k);
  b.found =
      device::parse(b.copy, b.octowords, in.index, in.request.qpn, wqe::MAX_BYTE_COUNT, &b.request);
  return b;
}

bool same_data(const send_input& in, const device::request& r) {
  if (in.request.inline_length != 0)
    return r.is_inline && r.inline_length == in.request.inline_length && r.piece_count == 0 &&
           std::memcmp(r.inline_data, in.payload, r.inline_length) == 0;
  std::uint32_t at = 0;
  for (std::uint32_t i = 0; i < in.request.entry_count; ++i) {
    const wqe::sge& e = in.entries[i];
    if (e.length == 0) continue;
    const device::piece& p = r.pieces[at++];
    if (p.address != e.laddr || p.key != e.lkey || p.length != e.length) return false;
  }
  return at == r.piece_count && !r.is_inline;
}

bool same_operands(const wqe::send_request& in, const device::request& r) {
  if (!is_atomic(in.op)) return true;
  const std::uint64_t mask = in.atomic.size == 4 ? 0xffffffff : ~std::uint64_t{0};
  const bool compares = in.op == wqe::opcode::atomic_cs || in.op == wqe::opcode::atomic_masked_cs;
  return r.atomic.size == in.atomic.size && r.atomic.swap_add == (in.atomic.swap_add & mask) &&
         (!compares || r.atomic.compare == (in.atomic.compare & mask)) &&
         (!is_masked(in.op) || r.atomic.compare_mask == (in.atomic.compare_mask & mask)) &&
         (in.op != wqe::opcode::atomic_masked_cs ||
          r.atomic.swap_mask == (in.atomic.swap_mask & mask));
}

// What the encoders write, the card reads as it was meant.
TEST(request, parse__reads_back_what_was_asked_for) {
  const std::uint64_t seed = test_seed();
  int right = 0;
  for (int i = 0; i < MANY; ++i) {
    const send_input in = random_input(seed, static_cast<std::uint64_t>(i));
    const read_back b = written_and_read(in);
    const wqe::send_request& r = in.request;
    right +=
        b.found == wqe::syndrome::none && b.request.op == r.op &&
        b.request.signaled == r.signaled && b.request.solicited == r.solicited &&
        b.request.fence == r.fence && b.request.imm == (takes_imm(r.op) ? r.imm : 0) &&
        (!has_remote_address(r.op) || (b.request.raddr == r.raddr && b.request.rkey == r.rkey)) &&
        same_data(in, b.request) && same_operands(r, b.request);
  }
  EXPECT_EQ(right, MANY);
}

// The index, the queue and the rest of the head: wrong ones are not read as right.
TEST(request, parse__refuses_what_is_not_the_next_request_of_the_queue) {
  const send_input in = random_input(3, 4);
  const read_back b = written_and_read(in);
  ASSERT_EQ(b.found, wqe::syndrome::none);
  device::request out;
  const auto found = [&](std::uint64_t index, std::uint32_t qpn) {
    return device::parse(b.copy, b.octowords, index, qpn, wqe::MAX_BYTE_COUNT, &out);
  };
  EXPECT_EQ(found(in.index, in.request.qpn), wqe::syndrome::none);
  EXPECT_EQ(found(in.index + 65536, in.request.qpn), wqe::syndrome::none);
  EXPECT_EQ(found(in.index + 1, in.request.qpn), wqe::syndrome::local_qp_operation);
  EXPECT_EQ(found(in.index, in.request.qpn ^ 1), wqe::syndrome::local_qp_operation);
}

// Any bytes: an answer, and counts that stay inside. The address sanitizer looks at the rest.
TEST(request, parse__random_bytes) {
  random_numbers random(test_seed(), 99);
  int read = 0;
  for (int i = 0; i < MANY; ++i) {
    wqe::octoword copy[wqe::MAX_OCTOWORDS];
    for (wqe::octoword& o : copy)
      for (std::uint32_t& w : o.word) w = static_cast<std::uint32_t>(random.next());
    const std::uint64_t index = random.next();
    // Often something that begins as it should.
    copy[0].word[0] =
        wqe::be32(static_cast<std::uint32_t>(index & 0xffff) << 8 | random.below(0x28));
    const std::uint32_t octowords = 1 + random.below(wqe::MAX_OCTOWORDS);
    copy[0].word[1] = wqe::be32(5u << 8 | octowords);
    device::request out;
    const wqe::syndrome found =
        device::parse(copy, octowords, index, 5, wqe::DEFAULT_MAX_MESSAGE, &out);
    if (found != wqe::syndrome::none) continue;
    ++read;
    EXPECT_LE(out.piece_count, device::MOST_PIECES);
    EXPECT_LE(out.inline_length, device::MOST_INLINE);
    EXPECT_LE(out.length, wqe::DEFAULT_MAX_MESSAGE);
  }
  EXPECT_GT(read, 0);
}

TEST(request, octowords_in__more_than_six_bits_is_none) {
  for (std::uint32_t said = 0; said < 256; ++said) {
    const wqe::octoword o{{0, wqe::be32(said), 0, 0}};
    EXPECT_EQ(device::octowords_in(o), said <= 63 ? said : 0);
  }
}

}  // namespace
