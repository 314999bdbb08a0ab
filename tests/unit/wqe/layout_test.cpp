// The numbers of the layout against the header of rdma-core, where that is installed.
#include "lci/wqe/layout.hpp"

#include <gtest/gtest.h>
#ifdef LCI_HAVE_MLX5DV_H
#include <infiniband/mlx5dv.h>
#endif

#include <cstring>

#include "lci/wqe/cqe.hpp"

namespace {

using namespace lci::wqe;

TEST(layout, blocks_of__rounds_up) {
  EXPECT_EQ(blocks_of(1), 1u);
  EXPECT_EQ(blocks_of(4), 1u);
  EXPECT_EQ(blocks_of(5), 2u);
  EXPECT_EQ(blocks_of(MAX_OCTOWORDS), MAX_BLOCKS);
}

TEST(layout, be__swaps_and_is_its_own_inverse) {
  EXPECT_EQ(swapped(0x01020304u), 0x04030201u);
  EXPECT_EQ(swapped(std::uint64_t{0x0102030405060708}), 0x0807060504030201u);
  EXPECT_EQ(be64(be64(0x123456789abcdef0u)), 0x123456789abcdef0u);
  const std::uint32_t words[2] = {be32(0x01020304), be32(0x05060708)};
  std::uint64_t both;
  std::memcpy(&both, words, 8);
  EXPECT_EQ(joined(words[0], words[1]), both);
}

#ifdef LCI_HAVE_MLX5DV_H
TEST(layout, offsets__are_those_of_the_header) {
  int compared = 0;
  const auto same = [&](std::size_t ours, std::size_t theirs, const char* name) {
    EXPECT_EQ(ours, theirs) << name;
    ++compared;
  };
  same(CQE_SLID * 4 + 2, offsetof(mlx5_cqe64, slid), "slid");
  same(CQE_SOURCE * 4, offsetof(mlx5_cqe64, flags_rqpn), "flags_rqpn");
  same(CQE_SRQN * 4, offsetof(mlx5_cqe64, srqn_uidx), "srqn_uidx");
  same(CQE_IMM * 4, offsetof(mlx5_cqe64, imm_inval_pkey), "imm_inval_pkey");
  same(CQE_BYTES * 4, offsetof(mlx5_cqe64, byte_cnt), "byte_cnt");
  same(CQE_TIMESTAMP * 4, offsetof(mlx5_cqe64, timestamp), "timestamp");
  same(CQE_QPN * 4, offsetof(mlx5_cqe64, sop_drop_qpn), "sop_drop_qpn");
  same(CQE_OWNER * 4, offsetof(mlx5_cqe64, wqe_counter), "wqe_counter");
  same(CQE_OWNER * 4 + 3, offsetof(mlx5_cqe64, op_own), "op_own");
  same(CQE_SYNDROME * 4 + 2, offsetof(mlx5_err_cqe, vendor_err_synd), "vendor_err_synd");
  same(CQE_SYNDROME * 4 + 3, offsetof(mlx5_err_cqe, syndrome), "syndrome");
  same(BLOCK_SIZE, MLX5_SEND_WQE_BB, "basic block");
  same(INVALID_LKEY, MLX5_INVALID_LKEY, "invalid key");
  same(INLINE_FLAG, MLX5_INLINE_SEG, "inline flag");
  same(SEND_RECORD, MLX5_SND_DBR, "send record");
  same(RECEIVE_RECORD, MLX5_RCV_DBR, "receive record");
  EXPECT_EQ(compared, 16);
}

// The functions that read a completion: every last byte, and the counter before it.
TEST(cqe_mlx5dv, decode__owner_kind_format_solicited_of_every_byte) {
  for (int byte = 0; byte < 256; ++byte) {
    mlx5_cqe64 entry{};
    entry.op_own = static_cast<std::uint8_t>(byte);
    entry.wqe_counter = htobe16(static_cast<std::uint16_t>(byte * 257));
    std::uint32_t words[16];
    std::memcpy(words, &entry, sizeof(words));
    const completion c = decode(words);
    EXPECT_EQ(static_cast<int>(c.kind), mlx5dv_get_cqe_opcode(&entry));
    EXPECT_EQ(c.format, mlx5dv_get_cqe_format(&entry));
    EXPECT_EQ(c.solicited, mlx5dv_get_cqe_se(&entry));
    EXPECT_EQ(owner_of(be32(words[CQE_OWNER])), mlx5dv_get_cqe_owner(&entry));
    EXPECT_EQ(c.wqe_counter, byte * 257);
  }
}
#endif

}  // namespace
