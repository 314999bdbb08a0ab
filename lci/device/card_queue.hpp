// A send queue of a card in software: looks at the doorbell, reads the requests that it was told
// of, has them done and completes them, one after the other. Where the world has a way for several,
// puts, or gets, without a fence are under way beside each other; they too are completed in the
// order of the queue. Together with lci/wqe it is a whole path without a card. Callers: the thread
// that drives it, by progress_st(). Threads: single; the program's threads write the ring
// meanwhile. Always true: a request is copied before it is looked at, so what changes later is not
// seen; a request whose place in the completion queue is not free is not begun; after the first
// error every request ends as flushed, and none is begun any more; every other request begins when
// all before it are done. Cost: nothing where none is made: no thread, no memory, no instruction in
// a message.
#pragma once

#include <cstdint>

#include "lci/device/cq_writer.hpp"
#include "lci/device/key_table.hpp"
#include "lci/device/request.hpp"
#include "lci/device/window.hpp"
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
  // As many as the world can have under way beside each other, but no more than that.
  std::uint32_t most_beside = ~std::uint32_t{0};
  // The world has put_signal().
  bool joins_signals = false;
};

class card_queue {
 public:
  // `keys` are those of the own side, `beyond` is the other side.
  card_queue(const card_queue_options& options, key_table& keys, world& beyond);

  // Does what can be done now; returns how many requests ended.
  std::size_t progress_st() noexcept;
  bool has_failed() const noexcept { return has_failed_; }
  // After has_failed(): why, and which request was the first.
  wqe::syndrome error() const noexcept { return error_; }
  wqe::opcode failed_op() const noexcept { return failed_op_; }
  std::uint64_t next() const noexcept { return next_; }

 private:
  enum class progress : std::uint8_t { none, begun, ended };
  std::uint64_t told() const noexcept;
  progress step(std::uint64_t told) noexcept;
  bool end_oldest() noexcept;
  bool end_alone(answer a) noexcept;
  void look_at(std::uint64_t index, std::uint64_t available) noexcept;
  wqe::syndrome read(std::uint64_t index, std::uint64_t available) noexcept;
  answer start_beside() noexcept;
  answer execute() noexcept;
  answer execute_with_signal(std::uint64_t available) noexcept;
  wqe::syndrome resolve_local() noexcept;
  void finish(const request_head& what, std::uint64_t blocks, wqe::syndrome why) noexcept;

  card_queue_options options_;
  key_table& keys_;
  world& beyond_;
  cq_writer cq_;
  window window_;
  std::uint64_t next_;  // block
  bool has_failed_ = false;
  wqe::syndrome error_ = wqe::syndrome::none;
  wqe::opcode failed_op_ = wqe::opcode::nop;
  bool is_posted_ = false;  // the request that is under way waits for beyond_.poll()
  // The request that was looked at last: alone under way, or not begun yet.
  std::uint64_t index_ = 0;
  bool is_looked_at_ = false;  // and not begun
  std::uint64_t blocks_ = 0;
  wqe::syndrome found_ = {};  // in its bytes
  request request_;
  std::uint64_t joined_ = 0;  // blocks of the request behind it that is done with it
  request signal_;            // that one
  local_piece pieces_[MOST_PIECES];
};

}  // namespace lci::device
