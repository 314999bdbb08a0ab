// A send request as text, for people who look at a queue that went wrong. Callers: hosts alone;
// tools, tests, debuggers. Threads: pure functions.
// Always true: it reads the octowords that it is given and no others, whatever bytes they are; what
// they do not say is not made up, and a request that is longer than they are is told as cut.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>

#include "lci/wqe/send_wqe.hpp"

namespace lci::wqe {

namespace detail {

inline std::string hex(std::uint64_t v) {
  char text[19];
  std::snprintf(text, sizeof(text), "0x%llx", static_cast<unsigned long long>(v));
  return text;
}

inline std::string name_of(opcode op) {
  switch (op) {
    case opcode::nop:
      return "NOP";
    case opcode::send_inval:
      return "SEND_INVAL";
    case opcode::rdma_write:
      return "RDMA_WRITE";
    case opcode::rdma_write_imm:
      return "RDMA_WRITE_IMM";
    case opcode::send:
      return "SEND";
    case opcode::send_imm:
      return "SEND_IMM";
    case opcode::rdma_read:
      return "RDMA_READ";
    case opcode::atomic_cs:
      return "ATOMIC_CS";
    case opcode::atomic_fa:
      return "ATOMIC_FA";
    case opcode::atomic_masked_cs:
      return "ATOMIC_MASKED_CS";
    case opcode::atomic_masked_fa:
      return "ATOMIC_MASKED_FA";
    case opcode::dump:
      return "DUMP";
  }
  return "opcode " + hex(static_cast<unsigned>(op));
}

inline std::uint64_t half_of(const octoword& o, unsigned which) {
  return std::uint64_t{be32(o.word[2 * which])} << 32 | be32(o.word[2 * which + 1]);
}

inline std::string control_text(const octoword& control) {
  const std::uint32_t head = be32(control.word[0]), size = be32(control.word[1]);
  const std::uint32_t flags = be32(control.word[2]);
  const auto op = static_cast<opcode>(head & 0xff);
  const auto fence = static_cast<fence_mode>(flags & FENCE_BITS);
  std::string out = name_of(op) + ", index " + hex(head >> 8 & 0xffff) + ", qpn " + hex(size >> 8) +
                    ", octowords " + std::to_string(size & 0xff);
  if (head >> 24 != 0) out += ", modifier " + hex(head >> 24);
  if ((flags & CQ_UPDATE) != 0) out += ", signaled";
  if ((flags & SOLICITED) != 0) out += ", solicited";
  if (fence != fence_mode::none)
    out += fence == fence_mode::small  ? ", small fence"
           : fence == fence_mode::full ? ", full fence"
                                       : ", fence " + hex(flags & FENCE_BITS);
  if (takes_imm(op)) out += ", imm " + hex(be32(control.word[3]));
  return out;
}

// Of the operands, `at` is the first octoword.
inline std::string operands_text(opcode op, std::uint32_t size, const octoword* at) {
  std::uint64_t n[4] = {half_of(at[0], 0), half_of(at[0], 1), 0, 0};
  if (is_masked(op) && size == 4) {
    for (unsigned i = 0; i < 4; ++i) n[i] = be32(at[0].word[i]);
  } else if (op == opcode::atomic_masked_cs) {
    n[2] = half_of(at[1], 0);
    n[3] = half_of(at[1], 1);
  }
  if (op == opcode::atomic_fa) return "; add " + hex(n[0]);
  if (op == opcode::atomic_masked_fa) return "; add " + hex(n[0]) + " boundary " + hex(n[1]);
  std::string out = "; swap " + hex(n[0]) + " compare " + hex(n[1]);
  if (is_masked(op)) out += " swap mask " + hex(n[2]) + " compare mask " + hex(n[3]);
  return out;
}

// The first of the inline bytes, as many as are there.
inline std::string inline_text(const octoword* at, std::uint32_t octowords) {
  constexpr std::uint32_t MOST = 16;
  const std::uint32_t length = be32(at[0].word[0]) & ~INLINE_FLAG;
  const std::uint32_t given = octowords * OCTOWORD_SIZE - 4;
  std::string out = "; inline bytes " + std::to_string(length) + ":";
  for (std::uint32_t i = 0; i < length && i < given && i < MOST; ++i) {
    char text[4];
    std::snprintf(text, sizeof(text), " %02x",
                  static_cast<unsigned>(reinterpret_cast<const unsigned char*>(at)[4 + i]));
    out += text;
  }
  return length > MOST ? out + " ..." : out;
}

}  // namespace detail

// The request that begins with octoword `wqe`, of which there are `given` in a row: a copy, where
// the request passes the end of its ring.
inline std::string describe(const octoword* wqe, std::uint32_t given) {
  if (given == 0) return "nothing";
  std::string out = detail::control_text(wqe[0]);
  const std::uint32_t head = be32(wqe[0].word[0]), said = be32(wqe[0].word[1]) & 0xff;
  const std::uint32_t count = said < given ? said : given;
  const auto op = static_cast<opcode>(head & 0xff);
  const std::uint32_t width = head >> 24 == OPMOD_4_BYTES ? 4 : 8;
  const std::uint32_t operands = operand_octowords(op, width);
  std::uint32_t at = 1;
  if (has_remote_address(op) && at < count) {
    out += "; remote " + detail::hex(detail::half_of(wqe[at], 0)) + " key " +
           detail::hex(be32(wqe[at].word[2]));
    ++at;
  }
  if (operands != 0 && at + operands <= count) out += detail::operands_text(op, width, wqe + at);
  at += operands;
  const bool has_inline =
      at < count && takes_inline(op) && (be32(wqe[at].word[0]) & INLINE_FLAG) != 0;
  if (has_inline) {
    out += detail::inline_text(wqe + at, count - at);
  } else if (op != opcode::nop) {
    for (; at < count; ++at)
      out += "; bytes " + std::to_string(be32(wqe[at].word[0])) + " at " +
             detail::hex(detail::half_of(wqe[at], 1)) + " key " +
             detail::hex(be32(wqe[at].word[1]));
  }
  return said > given ? out + "; cut" : out;
}

}  // namespace lci::wqe
