// A send queue of a card in software: looks at the doorbell, reads the requests that it was told
// of, has them done and completes them, one after the other. Together with lci/wqe it is a whole
// path without a card. Callers: the thread that drives it, by progress_st(). Threads: single; the
// program's threads write the ring meanwhile. Always true: a request is copied before it is looked
// at, so what changes later is not seen; a request whose place in the completion queue is not free
// is not begun; after the first error every request ends as flushed, and nothing is written any
// more but completions. Cost: nothing for who makes none: no thread, no memory, no instruction in a
// message.
#pragma once

#include <cstdint>

#include "lci/device/cq_writer.hpp"
#include "lci/device/key_table.hpp"
#include "lci/device/request.hpp"
#include "lci/device/world.hpp"
#include "lci/wqe/doorbell.hpp"

namespace lci::device {

struct card_queue_options {
  wqe::send_ring ring;
  wqe::completion_queue cq;  // of this queue alone
  wqe::doorbell bell;        // a mailbox is read as it is, of the other forms the record
  std::uint32_t qpn = 0;
  std::uint64_t first = 0;  // index of the first request
  std::uint64_t max_message = wqe::DEFAULT_MAX_MESSAGE;
  // How far it has read, for a poster that asks for no completions; may be null.
  std::uint64_t* read_index = nullptr;
  // The world has put_signal().
  bool joins_signals = false;
};

class card_queue {
 public:
  // `keys` are those of the own side, `beyond` is the other one.
  card_queue(const card_queue_options& options, key_table& keys, world& beyond);

  // Does what can be done now; returns how many requests ended.
  std::size_t progress_st() noexcept;
  bool has_failed() const noexcept { return has_failed_; }
  // After has_failed(): why, and which request was the first.
  wqe::syndrome error() const noexcept { return error_; }
  wqe::opcode failed_op() const noexcept { return failed_op_; }
  std::uint64_t next() const noexcept { return next_; }

 private:
  std::uint64_t told() const noexcept;
  bool step(std::uint64_t told) noexcept;
  bool begin(std::uint64_t available) noexcept;
  answer execute() noexcept;
  answer execute_with_signal(std::uint64_t available) noexcept;
  wqe::syndrome resolve_local() noexcept;
  void finish(wqe::syndrome why) noexcept;

  card_queue_options options_;
  key_table& keys_;
  world& beyond_;
  cq_writer cq_;
  std::uint64_t next_;  // block
  bool has_failed_ = false;
  wqe::syndrome error_ = wqe::syndrome::none;
  wqe::opcode failed_op_ = wqe::opcode::nop;
  bool is_posted_ = false;    // the request that is under way waits for beyond_.poll()
  std::uint64_t blocks_ = 0;  // of the request that is under way
  wqe::syndrome found_ = {};  // in its bytes
  request request_;
  std::uint64_t joined_ = 0;  // blocks of the request behind it that is done with it
  request signal_;            // that one
  local_piece pieces_[MOST_PIECES];
};

}  // namespace lci::device
