// The mlx5 format of work requests and completions: numbers, segments, and where each field is. Its
// source is infiniband/mlx5dv.h of rdma-core; for extended atomics, which that header leaves out,
// it is the device library of NVSHMEM (github.com/NVIDIA/nvshmem). Callers: the encoders and
// decoders of this room, the card in software, tests. Threads: constants. Always true: every number
// of more than a byte is big-endian in memory; sizes of work requests are counted in octowords of
// 16 bytes, places in a send ring in basic blocks of 64.
#pragma once

#include <cstdint>

#include "lci/wqe/anywhere.hpp"
#include "lci/wqe/byte_order.hpp"

namespace lci::wqe {

inline constexpr std::uint32_t OCTOWORD_SIZE = 16;
inline constexpr std::uint32_t BLOCK_SIZE = 64;  // MLX5_SEND_WQE_BB
inline constexpr std::uint32_t OCTOWORDS_PER_BLOCK = BLOCK_SIZE / OCTOWORD_SIZE;
inline constexpr std::uint32_t MAX_OCTOWORDS = 63;  // the size field has 6 bits
inline constexpr std::uint32_t MAX_BLOCKS = 16;     // of one work request
inline constexpr std::uint32_t MAX_QPN = 0xffffff;
// So that 16 bits of an index are unambiguous.
inline constexpr std::uint32_t MAX_RING_BLOCKS = 32768;

inline constexpr std::uint32_t INLINE_FLAG = 0x80000000u;  // MLX5_INLINE_SEG, in a byte count
inline constexpr std::uint32_t MAX_BYTE_COUNT = INLINE_FLAG - 1;
inline constexpr std::uint32_t INVALID_LKEY = 0x100;  // MLX5_INVALID_LKEY, ends a receive entry

// What fits one basic block of a write beside its other segments; longer ones are legal.
inline constexpr std::uint32_t DEFAULT_MAX_INLINE = 28;
// What the public device libraries set as the limit of one message (DOCA, MORI, NVSHMEM).
inline constexpr std::uint32_t DEFAULT_MAX_MESSAGE = 1u << 30;

enum class opcode : std::uint8_t {
  nop = 0x00,
  send_inval = 0x01,
  rdma_write = 0x08,
  rdma_write_imm = 0x09,
  send = 0x0a,
  send_imm = 0x0b,
  rdma_read = 0x10,
  atomic_cs = 0x11,  // compare and swap, 8 bytes
  atomic_fa = 0x12,  // fetch and add, 8 bytes
  atomic_masked_cs = 0x14,
  atomic_masked_fa = 0x15,
  dump = 0x23,  // the card reads the data and sends nothing; not in mlx5dv.h
};

// Opcode modifier of extended atomics: how wide the operands are.
inline constexpr std::uint8_t OPMOD_4_BYTES = 0x08, OPMOD_8_BYTES = 0x09;

// Bits of the control segment's byte 11.
inline constexpr std::uint8_t SOLICITED = 0x02;
inline constexpr std::uint8_t CQ_UPDATE = 0x08;
inline constexpr std::uint8_t FENCE_BITS = 0xe0;
enum class fence_mode : std::uint8_t {
  none = 0,
  small = 0x20,  // MLX5_WQE_CTRL_INITIATOR_SMALL_FENCE
  full = 0x80,   // MLX5_WQE_CTRL_FENCE: waits for reads and atomics before it
};

LCI_ANYWHERE constexpr bool is_known(fence_mode fence) noexcept {
  return fence == fence_mode::none || fence == fence_mode::small || fence == fence_mode::full;
}

// 16 bytes as they are in memory: each word is already big-endian.
struct alignas(16) octoword {
  std::uint32_t word[4];
};
static_assert(sizeof(octoword) == OCTOWORD_SIZE, "rings are arrays of them");

// Doorbell record of a queue pair: two words in this order. Its count has 16 bits.
inline constexpr std::uint32_t RECEIVE_RECORD = 0, SEND_RECORD = 1;
// Record of a completion queue: consumer index of 24 bits, and what arms it.
inline constexpr std::uint32_t CONSUMER_RECORD = 0, ARM_RECORD = 1;
inline constexpr std::uint32_t ARM_UAR_OFFSET = 0x20;

// Completions.
enum class cqe_opcode : std::uint8_t {
  request = 0,
  resp_write_imm = 1,
  resp_send = 2,
  resp_send_imm = 3,
  resp_send_inv = 4,
  resize = 5,
  no_packet = 6,
  signature_error = 12,
  request_error = 13,
  response_error = 14,
  invalid = 15,
};
// An error code of the card. Others than these are general errors.
enum class syndrome : std::uint8_t {
  none = 0x00,
  local_length = 0x01,
  local_qp_operation = 0x02,
  local_protection = 0x04,
  flushed = 0x05,
  window_bind = 0x06,
  bad_response = 0x10,
  local_access = 0x11,
  remote_invalid_request = 0x12,
  remote_access = 0x13,
  remote_operation = 0x14,
  retry_exceeded = 0x15,
  rnr_retry_exceeded = 0x16,
  remote_aborted = 0x22,
};
inline constexpr std::uint8_t OWNER_BIT = 1;
// The owner word of an entry before the queue is used: no opcode, since a ring of zeros looks
// finished, and the counter before the first, which a collapsed queue is asked for.
inline constexpr std::uint32_t CQE_UNUSED = 0xffff00f0;
inline constexpr std::uint32_t CQE_SIZE = 64, LARGE_CQE_SIZE = 128;

// Words of the 64 bytes that are decoded, counted from their begin.
inline constexpr std::uint32_t CQE_SLID = 5, CQE_SOURCE = 6, CQE_SRQN = 8, CQE_IMM = 9,
                               CQE_BYTES = 11, CQE_TIMESTAMP = 12, CQE_SYNDROME = 13, CQE_QPN = 14,
                               CQE_OWNER = 15;

// One rule for every ring of this format: slot = index & (count - 1).
LCI_ANYWHERE constexpr bool is_power_of_two(std::uint64_t v) noexcept {
  return v != 0 && (v & (v - 1)) == 0;
}
LCI_ANYWHERE constexpr std::uint32_t blocks_of(std::uint32_t octowords) noexcept {
  return (octowords + OCTOWORDS_PER_BLOCK - 1) / OCTOWORDS_PER_BLOCK;
}

// The segments. Numbers in, memory form out.
LCI_ANYWHERE constexpr octoword control_segment(std::uint8_t opmod, std::uint64_t index, opcode op,
                                                std::uint32_t qpn, std::uint32_t octowords,
                                                std::uint8_t flags, std::uint32_t imm) noexcept {
  // Without the mask the 17th bit of the index would change the opcode modifier.
  return {{be32(std::uint32_t{opmod} << 24 | static_cast<std::uint32_t>(index & 0xffff) << 8 |
                static_cast<std::uint32_t>(op)),
           be32(qpn << 8 | octowords), be32(flags), be32(imm)}};
}
LCI_ANYWHERE constexpr octoword segment_of(std::uint64_t first, std::uint64_t second) noexcept {
  return {{be32(static_cast<std::uint32_t>(first >> 32)), be32(static_cast<std::uint32_t>(first)),
           be32(static_cast<std::uint32_t>(second >> 32)),
           be32(static_cast<std::uint32_t>(second))}};
}
LCI_ANYWHERE constexpr octoword remote_address_segment(std::uint64_t raddr,
                                                       std::uint32_t rkey) noexcept {
  return segment_of(raddr, std::uint64_t{rkey} << 32);
}
LCI_ANYWHERE constexpr octoword data_segment(std::uint32_t length, std::uint32_t lkey,
                                             std::uint64_t laddr) noexcept {
  return segment_of(std::uint64_t{length} << 32 | lkey, laddr);
}
LCI_ANYWHERE constexpr octoword four_words(std::uint64_t a, std::uint64_t b, std::uint64_t c,
                                           std::uint64_t d) noexcept {
  return {{be32(static_cast<std::uint32_t>(a)), be32(static_cast<std::uint32_t>(b)),
           be32(static_cast<std::uint32_t>(c)), be32(static_cast<std::uint32_t>(d))}};
}

}  // namespace lci::wqe
