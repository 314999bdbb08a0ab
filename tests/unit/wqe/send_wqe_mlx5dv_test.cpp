// A million random requests against an encoder that is made of rdma-core's structures and inline
// functions alone. Extended atomics and DUMP are not in that header: their segments are written out
// here from the layout in NVSHMEM.
#ifdef LCI_HAVE_MLX5DV_H
#include <gtest/gtest.h>
#include <infiniband/mlx5dv.h>

#include <cstring>

#include "lci/wqe/send_wqe.hpp"
#include "tests/support/sanitized.hpp"
#include "tests/support/seed.hpp"
#include "tests/unit/wqe/golden.hpp"

namespace {

using namespace lci::test;
using namespace lci::wqe;

constexpr std::size_t MOST = 1024;  // bytes of a request

struct laid_out {
  alignas(16) unsigned char at[MOST];
  std::size_t size = 0;
  template <class Segment>
  Segment* add(std::size_t size_of = sizeof(Segment)) {
    auto* const out = reinterpret_cast<Segment*>(at + size);
    size += size_of;
    return out;
  }
  void add_be(std::uint64_t value, int width) {
    for (int i = width; i-- > 0;) at[size++] = static_cast<unsigned char>(value >> (8 * i));
  }
};

void add_operands(laid_out& out, const send_request& r) {
  const atomic_operands& a = r.atomic;
  const int width = static_cast<int>(a.size);
  if (r.op == opcode::atomic_cs || r.op == opcode::atomic_fa) {
    auto* const s = out.add<mlx5_wqe_atomic_seg>();
    s->swap_add = htobe64(a.swap_add);
    s->compare = htobe64(r.op == opcode::atomic_cs ? a.compare : 0);
  } else if (r.op == opcode::atomic_masked_fa) {
    out.add_be(a.swap_add, width);
    out.add_be(a.compare_mask, width);
    if (width == 4) out.add_be(0, 8);
  } else {
    for (std::uint64_t v : {a.swap_add, a.compare, a.swap_mask, a.compare_mask})
      out.add_be(v, width);
  }
}

void add_data(laid_out& out, const send_request& r) {
  if (r.inline_length != 0) {
    auto* const s = out.add<mlx5_wqe_inl_data_seg>(4);
    s->byte_count = htobe32(r.inline_length | MLX5_INLINE_SEG);
    std::memcpy(out.at + out.size, r.inline_data, r.inline_length);
    out.size = (out.size + r.inline_length + 15) / 16 * 16;
    return;
  }
  for (std::uint32_t i = 0; i < r.entry_count; ++i) {
    const sge& e = r.entries[i];
    if (e.length != 0)
      mlx5dv_set_data_seg(out.add<mlx5_wqe_data_seg>(), static_cast<std::uint32_t>(e.length),
                          e.lkey, e.laddr);
  }
}

// The second encoder: nothing in it is ours but the order of segments.
laid_out by_header(const send_input& in) {
  const send_request r = request_of(in);
  laid_out out;
  std::memset(out.at, 0, sizeof(out.at));
  auto* const control = out.add<mlx5_wqe_ctrl_seg>();
  if (has_remote_address(r.op)) {
    auto* const s = out.add<mlx5_wqe_raddr_seg>();
    s->raddr = htobe64(r.raddr);
    s->rkey = htobe32(r.rkey);
    s->reserved = 0;
  }
  if (is_atomic(r.op)) add_operands(out, r);
  add_data(out, r);
  const bool is_extended = r.op == opcode::atomic_masked_cs || r.op == opcode::atomic_masked_fa;
  const bool has_imm =
      r.op == opcode::rdma_write_imm || r.op == opcode::send_imm || r.op == opcode::send_inval;
  const int fence = r.fence == fence_mode::full    ? MLX5_WQE_CTRL_FENCE
                    : r.fence == fence_mode::small ? MLX5_WQE_CTRL_INITIATOR_SMALL_FENCE
                                                   : 0;
  mlx5dv_set_ctrl_seg(
      control, static_cast<std::uint16_t>(in.index), static_cast<std::uint8_t>(r.op),
      static_cast<std::uint8_t>(is_extended ? (r.atomic.size == 4 ? 8 : 9) : 0), r.qpn,
      static_cast<std::uint8_t>(fence | (r.signaled ? MLX5_WQE_CTRL_CQ_UPDATE : 0) |
                                (r.solicited ? MLX5_WQE_CTRL_SOLICITED : 0)),
      static_cast<std::uint8_t>(out.size / 16), 0, htobe32(has_imm ? r.imm : 0));
  return out;
}

// Whether our bytes are those of the header, at the places where a ring has them.
bool agrees(const send_input& in, const send_output& ours, const laid_out& theirs) {
  bytes expected(sizeof(ours.ring), 0xee);
  for (std::size_t i = 0; i < theirs.size; ++i)
    expected[(in.index * BLOCK_SIZE + i) % expected.size()] = theirs.at[i];
  return ours.answer == status::ok && ours.written.octowords * 16 == theirs.size &&
         std::memcmp(ours.ring, expected.data(), expected.size()) == 0 &&
         std::memcmp(&ours.written.doorbell, theirs.at, 8) == 0;
}

TEST(send_wqe_mlx5dv, write__a_million_random_requests_agree_with_the_header) {
  const std::uint64_t seed = test_seed();
  const int count = IS_SANITIZED ? 50000 : 1000000;
  int agreed = 0, passed_the_end = 0, by_opcode[256] = {};
  for (std::uint64_t i = 0; i < static_cast<std::uint64_t>(count); ++i) {
    const send_input in = random_input(seed, i);
    send_output ours;
    encode(in, &ours);
    agreed += agrees(in, ours, by_header(in));
    passed_the_end += (in.index & (SMALL_RING - 1)) + ours.written.blocks > SMALL_RING;
    ++by_opcode[static_cast<int>(in.request.op)];
  }
  EXPECT_EQ(agreed, count);
  // And that they were not all alike.
  EXPECT_GT(passed_the_end, count / 1000);
  int operations = 0;
  for (int of_one : by_opcode) operations += of_one > count / 20;
  EXPECT_EQ(operations, 12);
}

// The comparison can fail: each byte of either side, changed.
TEST(send_wqe_mlx5dv, agrees__no_more_when_a_byte_is_changed) {
  const send_input in = random_input(7, 7);
  send_output ours;
  encode(in, &ours);
  laid_out theirs = by_header(in);
  ASSERT_TRUE(agrees(in, ours, theirs));
  int seen = 0;
  for (unsigned char& byte : ours.ring) {
    byte ^= 1;
    seen += !agrees(in, ours, theirs);
    byte ^= 1;
  }
  EXPECT_EQ(seen, static_cast<int>(sizeof(ours.ring)));
  for (std::size_t i = 0; i < theirs.size; ++i) {
    theirs.at[i] ^= 1;
    EXPECT_FALSE(agrees(in, ours, theirs)) << i;
    theirs.at[i] ^= 1;
  }
}

}  // namespace

#else
#include <gtest/gtest.h>
TEST(send_wqe_mlx5dv, write__a_million_random_requests_agree_with_the_header) {
  GTEST_SKIP() << "no infiniband/mlx5dv.h (Debian: libibverbs-dev)";
}
#endif
