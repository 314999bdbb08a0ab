// A work request of a send queue, with its parts. Threads: single. Always true: only the fields
// that its opcode needs are written, since it is made for every message.
#pragma once

#include <arpa/inet.h>
#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>

namespace lci::ibv {

struct work {
  explicit work(ibv_wr_opcode what, unsigned flags = 0, std::uint32_t imm = 0) noexcept {
    wr.next = nullptr;
    wr.sg_list = parts;
    wr.num_sge = 0;
    wr.opcode = what;
    wr.send_flags = flags;
    wr.imm_data = htonl(imm);
  }
  work(const work&) = delete;
  work& operator=(const work&) = delete;

  // Bytes to send, or room for those that are read; none is no part.
  void add(const void* from, std::size_t size, std::uint32_t key = 0) noexcept {
    if (size == 0) return;
    parts[wr.num_sge++] = {reinterpret_cast<std::uint64_t>(from), static_cast<std::uint32_t>(size),
                           key};
  }
  // Where a write or a read goes.
  void aim(std::uint64_t address, std::uint32_t key) noexcept {
    wr.wr.rdma.remote_addr = address;
    wr.wr.rdma.rkey = key;
  }

  ibv_sge parts[2];
  ibv_send_wr wr;
};

}  // namespace lci::ibv
