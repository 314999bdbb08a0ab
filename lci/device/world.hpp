// The seam below a card in software: what a checked request does to the other side. Behind it
// stands plain memory (memory_world) or a network of lci (net_world). Callers: card_queue, for one
// request at a time, or several where the world has a way for that. Threads: single, the one that
// drives the card. Always true: local pieces were looked up and may be read, or written, for as
// long as the request is under way; the other side's keys are looked up behind the seam, all of
// them before the first byte is written.
#pragma once

#include <cstddef>
#include <cstdint>

#include "lci/wqe/cqe.hpp"
#include "lci/wqe/send_wqe.hpp"

namespace lci::device {

struct local_piece {
  std::byte* at;
  std::uint32_t length;
  std::uint32_t key = 0;  // by which it was found; of inline bytes 0
};
struct local_data {
  const local_piece* pieces;
  std::uint32_t count;
  std::uint64_t length;
};
struct remote_place {
  std::uint64_t address;
  std::uint32_t key;
};

enum class outcome {
  done,    // what was to be written is there, in order before all that follows
  posted,  // poll() will say
  retry,   // not now, and nothing happened
  failed,  // see the syndrome; over a network a part may have been written
};
struct answer {
  outcome what = outcome::done;
  wqe::syndrome why = wqe::syndrome::none;
};
constexpr answer failed(wqe::syndrome why) { return {outcome::failed, why}; }

class world {
 public:
  virtual ~world() = default;
  // Before each of the operations below: whether its end is written as a completion, which tells
  // the program that the other side has it.
  virtual void expect_completion(bool /*is_signaled*/) noexcept {}
  // A request that does nothing: ends when all before it are done at the other side.
  virtual answer flush() noexcept { return {}; }
  // `op` is rdma_write or rdma_write_imm.
  virtual answer put(wqe::opcode op, const local_data& from, remote_place to, std::uint32_t imm,
                     bool solicited) noexcept = 0;
  // A put of inline bytes, and a store of eight bytes to an aligned word behind it, at once. retry:
  // this world has no way for that now, and nothing happened.
  virtual answer put_signal(const local_data& /*from*/, remote_place /*to*/, remote_place /*word*/,
                            std::uint64_t /*value*/) noexcept {
    return {outcome::retry, wqe::syndrome::none};
  }
  virtual answer get(remote_place from, const local_data& to) noexcept = 0;
  // `op` is send, send_imm or send_inval.
  virtual answer send(wqe::opcode op, const local_data& from, std::uint32_t imm,
                      bool solicited) noexcept = 0;
  // `old`, of the operands' size, gets what was there.
  virtual answer atomic(wqe::opcode op, const wqe::atomic_operands& with, remote_place at,
                        std::byte* old) noexcept = 0;
  // After posted: posted again, done or failed.
  virtual answer poll() noexcept { return {}; }

  // Puts that ask for no completion and have no fence, or gets, several at a time, in any order:
  // how many. Each has a number below that while it is under way; none of the above is, meanwhile.
  // 0: there is no way, and the others are not called. One that is done, or has failed, at once is
  // not polled.
  virtual std::uint32_t most_beside() const noexcept { return 0; }
  // retry: not now, or not in this way, and nothing happened; put() or get() will say why.
  virtual answer put_beside(std::uint32_t /*number*/, const local_data& /*from*/,
                            remote_place /*to*/) noexcept {
    return {outcome::retry, wqe::syndrome::none};
  }
  virtual answer get_beside(std::uint32_t /*number*/, remote_place /*from*/,
                            const local_data& /*to*/) noexcept {
    return {outcome::retry, wqe::syndrome::none};
  }
  virtual answer poll_beside(std::uint32_t /*number*/) noexcept { return {}; }
};

}  // namespace lci::device
