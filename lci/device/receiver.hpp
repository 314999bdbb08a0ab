// The receive half of a queue pair in software: takes receive entries in order, scatters messages
// into them and completes them. Callers: what delivers, such as memory_world. Threads: single.
// Always true: keys and room are looked at before a byte is written; a message without an entry, or
// without a place for its completion, is not taken, and nothing has changed.
#pragma once

#include "lci/device/cq_writer.hpp"
#include "lci/device/key_table.hpp"
#include "lci/device/request.hpp"
#include "lci/device/world.hpp"
#include "lci/wqe/recv_wqe.hpp"

namespace lci::device {

struct recv_queue {
  wqe::recv_ring ring;
  wqe::completion_queue cq;         // of this queue alone: not that of the send half
  std::uint32_t* record = nullptr;  // the doorbell record of the pair
  std::uint32_t qpn = 0;
};

class receiver {
 public:
  receiver(const recv_queue& queue, key_table& keys);

  // A send: its bytes go into the next entry; one with invalidate takes the key `imm` back. What
  // the sender's card is told.
  answer take(wqe::opcode op, const local_data& from, std::uint32_t imm, std::uint32_t source_qp,
              bool solicited) noexcept;
  // A write with immediate data: the next entry is used up and stays empty.
  answer notify(std::uint64_t length, std::uint32_t imm, std::uint32_t source_qp,
                bool solicited) noexcept;
  // Done: there is an entry, and a place for its completion. Failed: there will be none any more.
  answer readiness() const noexcept;

 private:
  bool resolve_entry(std::uint64_t length, wqe::syndrome* why);
  void complete(wqe::cqe_opcode kind, std::uint64_t length, std::uint32_t imm,
                std::uint32_t source_qp, bool solicited, wqe::syndrome why);

  recv_queue queue_;
  key_table& keys_;
  cq_writer cq_;
  std::uint64_t next_ = 0;  // entry
  bool has_failed_ = false;
  local_piece places_[MOST_PIECES];
};

}  // namespace lci::device
