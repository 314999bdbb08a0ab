// The other side in plain memory of this process: regions behind keys, and the receive half that
// takes sends. Callers: card_queue. Threads: single.
// Always true: atomic operations are those of the processor, so they are atomic against all of its
// threads; a put of 4 or 8 aligned bytes is one store, so a thread that polls it sees it whole,
// after all that was put before.
#pragma once

#include "lci/device/key_table.hpp"
#include "lci/device/receiver.hpp"
#include "lci/device/world.hpp"

namespace lci::device {

class memory_world final : public world {
 public:
  // `peer` may be null: then nothing takes sends and immediate data. `qpn` is the sender's.
  memory_world(key_table& keys, receiver* peer, std::uint32_t qpn)
      : keys_(keys), peer_(peer), qpn_(qpn) {}

  answer put(wqe::opcode op, const local_data& from, remote_place to, std::uint32_t imm,
             bool solicited) noexcept override;
  answer get(remote_place from, const local_data& to) noexcept override;
  answer send(wqe::opcode op, const local_data& from, std::uint32_t imm,
              bool solicited) noexcept override;
  answer atomic(wqe::opcode op, const wqe::atomic_operands& with, remote_place at,
                std::byte* old) noexcept override;

 private:
  key_table& keys_;
  receiver* peer_;
  std::uint32_t qpn_;
};

}  // namespace lci::device
