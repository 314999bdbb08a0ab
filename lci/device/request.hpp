// A work request as a card reads it: bytes of any origin become a checked record, or a syndrome.
// Callers: card_queue. Threads: pure functions. Always true: parse() reads the octowords that it is
// given and no others; a record that it makes says exactly what the bytes say, and nothing in it
// has been looked up or touched yet.
#pragma once

#include <cstdint>

#include "lci/wqe/send_wqe.hpp"

namespace lci::device {

// One octoword is the control segment.
inline constexpr std::uint32_t MOST_PIECES = wqe::MAX_OCTOWORDS - 1;
inline constexpr std::uint32_t MOST_INLINE = MOST_PIECES * wqe::OCTOWORD_SIZE;

struct piece {
  std::uint64_t address;
  std::uint32_t length;
  std::uint32_t key;
};

struct request_head {
  wqe::opcode op = wqe::opcode::nop;
  bool signaled = false;
  bool solicited = false;
  wqe::fence_mode fence = wqe::fence_mode::none;  // as it was written, be it known or not
  std::uint32_t imm = 0;                          // host order
  std::uint64_t raddr = 0;
  std::uint32_t rkey = 0;
  wqe::atomic_operands atomic;
  std::uint32_t piece_count = 0;
  bool is_inline = false;
  std::uint32_t inline_length = 0;
  std::uint64_t length = 0;  // of all pieces, or inline
};
struct request : request_head {
  request() noexcept {}  // without 2 KiB of zeros for each
  void restart() noexcept { static_cast<request_head&>(*this) = {}; }
  piece pieces[MOST_PIECES];               // piece_count of them
  unsigned char inline_data[MOST_INLINE];  // inline_length
};

// How many octowords the control segment says, 0 if it says what cannot be.
std::uint32_t octowords_in(const wqe::octoword& control) noexcept;
bool is_signaled(const wqe::octoword& control) noexcept;
wqe::fence_mode fence_of(const wqe::octoword& control) noexcept;

// `wqe` holds `octowords` of them, as octowords_in() said; it must be request `index` of queue
// `qpn`. Not none: what a card answers to such bytes; `out` is then half filled.
wqe::syndrome parse(const wqe::octoword* wqe, std::uint32_t octowords, std::uint64_t index,
                    std::uint32_t qpn, std::uint64_t max_message, request* out) noexcept;

}  // namespace lci::device
