#include "lci/device/request.hpp"

#include <cstring>

namespace lci::device {
namespace {

using wqe::be32;
using wqe::octoword;
using wqe::opcode;
using wqe::syndrome;

constexpr syndrome NO_SUCH_REQUEST = syndrome::local_qp_operation;

std::uint64_t first_of(const octoword& o) {
  return std::uint64_t{be32(o.word[0])} << 32 | be32(o.word[1]);
}
std::uint64_t second_of(const octoword& o) {
  return std::uint64_t{be32(o.word[2])} << 32 | be32(o.word[3]);
}

// Which operands follow, and how wide they are. False: the opcode modifier says no width.
bool parse_operands(const octoword* at, std::uint32_t opmod, request* out) {
  wqe::atomic_operands& a = out->atomic;
  if (!is_masked(out->op)) {
    a = {first_of(at[0]), second_of(at[0]), 0, 0, 8};
    return opmod == 0;
  }
  const bool swaps = out->op == opcode::atomic_masked_cs;
  if (opmod == wqe::OPMOD_4_BYTES) {
    a.size = 4;
    a.swap_add = be32(at[0].word[0]);
    (swaps ? a.compare : a.compare_mask) = be32(at[0].word[1]);
    if (swaps) a.swap_mask = be32(at[0].word[2]);
    if (swaps) a.compare_mask = be32(at[0].word[3]);
    return true;
  }
  a.size = 8;
  a.swap_add = first_of(at[0]);
  (swaps ? a.compare : a.compare_mask) = second_of(at[0]);
  if (swaps) a.swap_mask = first_of(at[1]);
  if (swaps) a.compare_mask = second_of(at[1]);
  return opmod == wqe::OPMOD_8_BYTES;
}

syndrome parse_inline(const octoword* at, std::uint32_t octowords, request* out) {
  const std::uint32_t length = be32(at[0].word[0]) & ~wqe::INLINE_FLAG;
  // The size of the request says how much there is, to the octowords.
  if (!takes_inline(out->op) || length == 0 ||
      (length + sizeof(std::uint32_t) + wqe::OCTOWORD_SIZE - 1) / wqe::OCTOWORD_SIZE != octowords)
    return NO_SUCH_REQUEST;
  out->is_inline = true;
  out->inline_length = length;
  out->length = length;
  std::memcpy(out->inline_data, reinterpret_cast<const unsigned char*>(at) + 4, length);
  return syndrome::none;
}

syndrome parse_pieces(const octoword* at, std::uint32_t octowords, std::uint64_t max_message,
                      request* out) {
  for (std::uint32_t i = 0; i < octowords; ++i) {
    const piece p{second_of(at[i]), be32(at[i].word[0]), be32(at[i].word[1])};
    // What a card makes of 0 is not documented; encoders leave such entries out.
    if (p.length == 0 || (p.length & wqe::INLINE_FLAG) != 0) return NO_SUCH_REQUEST;
    out->pieces[out->piece_count++] = p;
    out->length += p.length;
  }
  return out->length > max_message ? syndrome::local_length : syndrome::none;
}

}  // namespace

std::uint32_t octowords_in(const octoword& control) noexcept {
  const std::uint32_t said = be32(control.word[1]) & 0xff;
  return said > wqe::MAX_OCTOWORDS ? 0 : said;
}

bool is_signaled(const octoword& control) noexcept {
  return (be32(control.word[2]) & wqe::CQ_UPDATE) != 0;
}

wqe::fence_mode fence_of(const octoword& control) noexcept {
  return static_cast<wqe::fence_mode>(be32(control.word[2]) & wqe::FENCE_BITS);
}

syndrome parse(const octoword* wqe, std::uint32_t octowords, std::uint64_t index, std::uint32_t qpn,
               std::uint64_t max_message, request* out) noexcept {
  const std::uint32_t head = be32(wqe[0].word[0]);
  const std::uint32_t opmod = head >> 24;
  out->restart();
  out->op = static_cast<opcode>(head & 0xff);
  out->signaled = is_signaled(wqe[0]);
  out->fence = fence_of(wqe[0]);
  out->solicited = (be32(wqe[0].word[2]) & wqe::SOLICITED) != 0;
  out->imm = be32(wqe[0].word[3]);
  if (!is_known(out->op) || (head >> 8 & 0xffff) != (index & 0xffff) ||
      be32(wqe[0].word[1]) >> 8 != qpn || (opmod != 0 && !is_masked(out->op)))
    return NO_SUCH_REQUEST;
  if (out->op == opcode::nop) return syndrome::none;  // some leave an octoword behind it
  std::uint32_t at = 1;
  if (has_remote_address(out->op)) {
    if (at == octowords) return NO_SUCH_REQUEST;
    out->raddr = first_of(wqe[at]);
    out->rkey = be32(wqe[at].word[2]);
    ++at;
  }
  if (is_atomic(out->op)) {
    const std::uint32_t operands = operand_octowords(out->op, opmod == wqe::OPMOD_4_BYTES ? 4 : 8);
    if (octowords - at != operands + 1 || !parse_operands(wqe + at, opmod, out))
      return NO_SUCH_REQUEST;
    at += operands;
  }
  const bool has_inline =
      at < octowords && (be32(wqe[at].word[0]) & wqe::INLINE_FLAG) != 0 && !is_atomic(out->op);
  const syndrome found = has_inline ? parse_inline(wqe + at, octowords - at, out)
                                    : parse_pieces(wqe + at, octowords - at, max_message, out);
  if (found != syndrome::none) return found;
  return is_atomic(out->op) && out->length != out->atomic.size ? NO_SUCH_REQUEST : syndrome::none;
}

}  // namespace lci::device
