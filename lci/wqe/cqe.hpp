// A completion queue entry, decoded. Callers: completion_queue, the C face, tests; the card in
// software writes what is read here. Threads: pure functions on a copy.
// Always true: the owner word is read first and at once, so counter and owner are of one instant;
// what is decoded is a copy of the 64 bytes, of a large entry the second half.
#pragma once

#include <cstdint>

#include "lci/wqe/layout.hpp"

namespace lci::wqe {

struct completion {
  cqe_opcode kind = cqe_opcode::invalid;
  std::uint8_t format = 0;  // not 0: data is in the entry, which no queue of lci is set up for
  bool solicited = false;
  std::uint8_t send_opcode = 0;  // of a request: which operation
  std::uint32_t qpn = 0;
  std::uint16_t wqe_counter = 0;  // a request's first block; a receive's number
  std::uint32_t byte_count = 0;   // received; of requests it has a meaning for reads only
  std::uint32_t imm = 0;          // host order; or the invalidated key
  std::uint32_t source_qp = 0;
  std::uint16_t source_lid = 0;
  std::uint32_t srqn = 0;  // shared receive queue, or user index
  std::uint64_t timestamp = 0;
  syndrome error = syndrome::none;
  std::uint8_t vendor_error = 0;
};

// Of the owner word, bytes 60..63, as a number.
LCI_ANYWHERE constexpr cqe_opcode kind_of(std::uint32_t owner_word) noexcept {
  return static_cast<cqe_opcode>(owner_word >> 4 & 0xf);
}
LCI_ANYWHERE constexpr std::uint16_t counter_of(std::uint32_t owner_word) noexcept {
  return static_cast<std::uint16_t>(owner_word >> 16);
}
LCI_ANYWHERE constexpr std::uint8_t owner_of(std::uint32_t owner_word) noexcept {
  return owner_word & OWNER_BIT;
}
// What the owner bit is once entry `ci` is there; it changes with every round of the ring.
LCI_ANYWHERE constexpr std::uint8_t expected_owner(std::uint64_t ci, std::uint32_t count) noexcept {
  return (ci & count) != 0;
}
LCI_ANYWHERE constexpr bool is_ready(std::uint32_t owner_word, std::uint64_t ci,
                                     std::uint32_t count) noexcept {
  return kind_of(owner_word) != cqe_opcode::invalid &&
         owner_of(owner_word) == expected_owner(ci, count);
}

// Not a test of bits: 4, a send that invalidated a key, is a success.
LCI_ANYWHERE constexpr bool is_error(cqe_opcode kind) noexcept {
  return kind == cqe_opcode::request_error || kind == cqe_opcode::response_error ||
         kind == cqe_opcode::signature_error;
}
LCI_ANYWHERE constexpr bool is_receive(cqe_opcode kind) noexcept {
  return kind == cqe_opcode::resp_write_imm || kind == cqe_opcode::resp_send ||
         kind == cqe_opcode::resp_send_imm || kind == cqe_opcode::resp_send_inv ||
         kind == cqe_opcode::response_error;
}

// `word`: the 16 words of the entry as they are in memory.
LCI_ANYWHERE inline completion decode(const std::uint32_t* word) noexcept {
  const std::uint32_t owner = be32(word[CQE_OWNER]);
  const std::uint32_t qpn = be32(word[CQE_QPN]);
  completion c;
  c.kind = kind_of(owner);
  c.format = static_cast<std::uint8_t>(owner >> 2 & 3);
  c.solicited = (owner & SOLICITED) != 0;
  c.wqe_counter = counter_of(owner);
  c.send_opcode = static_cast<std::uint8_t>(qpn >> 24);
  c.qpn = qpn & MAX_QPN;
  c.srqn = be32(word[CQE_SRQN]) & MAX_QPN;
  if (is_error(c.kind)) {
    const std::uint32_t errors = be32(word[CQE_SYNDROME]);
    c.error = static_cast<syndrome>(errors & 0xff);
    c.vendor_error = static_cast<std::uint8_t>(errors >> 8);
    return c;  // the other fields have no meaning in an error entry
  }
  c.byte_count = be32(word[CQE_BYTES]);
  c.imm = be32(word[CQE_IMM]);
  c.source_qp = be32(word[CQE_SOURCE]) & MAX_QPN;
  c.source_lid = static_cast<std::uint16_t>(be32(word[CQE_SLID]));
  c.timestamp = std::uint64_t{be32(word[CQE_TIMESTAMP])} << 32 | be32(word[CQE_TIMESTAMP + 1]);
  return c;
}

// The number of enum ibv_wc_status that rdma-core gives for a syndrome.
LCI_ANYWHERE constexpr int wc_status_of(syndrome what) noexcept {
  switch (what) {
    case syndrome::none:
      return 0;
    case syndrome::local_length:
      return 1;
    case syndrome::local_qp_operation:
      return 2;
    case syndrome::local_protection:
      return 4;
    case syndrome::flushed:
      return 5;
    case syndrome::window_bind:
      return 6;
    case syndrome::bad_response:
      return 7;
    case syndrome::local_access:
      return 8;
    case syndrome::remote_invalid_request:
      return 9;
    case syndrome::remote_access:
      return 10;
    case syndrome::remote_operation:
      return 11;
    case syndrome::retry_exceeded:
      return 12;
    case syndrome::rnr_retry_exceeded:
      return 13;
    case syndrome::remote_aborted:
      return 16;
  }
  return 21;  // IBV_WC_GENERAL_ERR
}

LCI_ANYWHERE inline const char* text_of(syndrome what) noexcept {
  switch (what) {
    case syndrome::none:
      return "no error";
    case syndrome::local_length:
      return "local length error";
    case syndrome::local_qp_operation:
      return "local queue pair operation error";
    case syndrome::local_protection:
      return "local protection error";
    case syndrome::flushed:
      return "flushed after an earlier error";
    case syndrome::window_bind:
      return "memory window bind error";
    case syndrome::bad_response:
      return "bad response";
    case syndrome::local_access:
      return "local access error";
    case syndrome::remote_invalid_request:
      return "remote invalid request";
    case syndrome::remote_access:
      return "remote access error";
    case syndrome::remote_operation:
      return "remote operation error";
    case syndrome::retry_exceeded:
      return "the peer does not answer";
    case syndrome::rnr_retry_exceeded:
      return "the peer has no receive posted";
    case syndrome::remote_aborted:
      return "the peer aborted";
  }
  return "general error";
}

}  // namespace lci::wqe
