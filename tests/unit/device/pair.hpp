// Two ends in one process: a send queue, the card in software that serves it, and a receive half,
// with all their memory between guards. Callers: the tests of this folder. Threads: as those.
// Always true: what lies outside of the regions that keys name is filled, so a byte that is written
// there is found.
#pragma once

#include <cstring>
#include <memory>
#include <vector>

#include "lci/device/card_queue.hpp"
#include "lci/device/memory_world.hpp"
#include "lci/wqe/send_queue.hpp"

namespace lci::test {

// Bytes between two guards.
class guarded {
 public:
  explicit guarded(std::size_t size, unsigned char filled = 0)
      : size_(size), bytes_(size + 2 * GUARD) {
    std::memset(bytes_.data(), FILL, bytes_.size());
    std::memset(data(), filled, size);
  }
  std::byte* data() { return reinterpret_cast<std::byte*>(bytes_.data()) + begin(); }
  std::uint64_t address() { return reinterpret_cast<std::uintptr_t>(data()); }
  std::size_t size() const { return size_; }
  bool is_whole() const {
    for (std::size_t i = 0; i < begin(); ++i)
      if (bytes_[i] != FILL) return false;
    for (std::size_t i = begin() + size_; i < bytes_.size(); ++i)
      if (bytes_[i] != FILL) return false;
    return true;
  }

 private:
  static constexpr std::size_t GUARD = 256;
  static constexpr unsigned char FILL = 0xa5;
  // At a block of 64 bytes.
  std::size_t begin() const {
    const auto at = reinterpret_cast<std::uintptr_t>(bytes_.data());
    return GUARD - at % 64;
  }
  std::size_t size_;
  std::vector<unsigned char> bytes_;
};

struct pair {
  static constexpr std::uint32_t QPN = 0x123, PEER = 0x456;

  explicit pair(std::uint32_t blocks = 64, wqe::doorbell_form form = wqe::doorbell_form::mailbox,
                std::uint64_t first = 0)
      : ring(std::size_t{blocks} * 64),
        cq(std::size_t{blocks} * 64),
        recv_ring(16 * 32),
        recv_cq(16 * 64),
        local(4096),
        remote(4096),
        landing(4096) {
    using namespace device;
    queue.ring = {ring.data(), blocks};
    queue.cq = {cq.data(), blocks, wqe::CQE_SIZE, cq_record};
    queue.bell = {form, record, &target, 0};
    queue.state = &state;
    queue.qpn = QPN;
    EXPECT_EQ(wqe::prepare(queue, first), wqe::status::ok);
    record[wqe::SEND_RECORD] = wqe::work_record(first);
    recv = {{recv_ring.data(), 16, 32},
            {recv_cq.data(), 16, wqe::CQE_SIZE, recv_cq_record},
            peer_record,
            PEER};
    wqe::make_unused(recv.cq);
    lkey = keys.add({local.data(), local.size(), WRITE});
    rkey = keys.add({remote.data(), remote.size(), REMOTE_READ | REMOTE_WRITE | REMOTE_ATOMIC});
    landing_key = keys.add({landing.data(), landing.size(), WRITE});
    peer = std::make_unique<receiver>(recv, keys);
    beyond = std::make_unique<memory_world>(keys, peer.get(), QPN);
    options = {queue.ring, queue.cq, queue.bell, QPN, first};
    card = std::make_unique<card_queue>(options, keys, *beyond);
  }

  wqe::sge entry(std::uint64_t at, std::uint64_t length) {
    return {local.address() + at, length, lkey};
  }
  // `r` with one entry, or none of length 0.
  wqe::status post(wqe::send_request r, std::uint64_t at, std::uint64_t length,
                   std::uint64_t to = 0) {
    const wqe::sge one = entry(at, length);
    r.entries = &one;
    r.entry_count = length != 0;
    r.raddr = remote.address() + to;
    r.rkey = rkey;
    return wqe::post(queue, r, &end);
  }
  void post_receive(std::uint64_t at, std::uint64_t length) {
    const wqe::sge one{landing.address() + at, length, landing_key};
    EXPECT_EQ(wqe::write_recv_wqe(recv.ring, receives, &one, 1), wqe::status::ok);
    wqe::post_receives(peer_record, ++receives);
  }
  wqe::status poll(wqe::completion* c) {
    const wqe::status s = wqe::poll(queue.cq, consumed, c);
    if (s != wqe::status::nothing) wqe::give_back(queue.cq, ++consumed);
    return s;
  }
  wqe::status poll_receive(wqe::completion* c) {
    const wqe::status s = wqe::poll(recv.cq, recv_consumed, c);
    if (s != wqe::status::nothing) wqe::give_back(recv.cq, ++recv_consumed);
    return s;
  }
  bool is_whole() {
    return ring.is_whole() && cq.is_whole() && recv_ring.is_whole() && recv_cq.is_whole() &&
           local.is_whole() && remote.is_whole() && landing.is_whole();
  }

  guarded ring, cq, recv_ring, recv_cq, local, remote, landing;
  std::uint32_t record[2] = {0, 0}, cq_record[2] = {0, 0};
  std::uint32_t peer_record[2] = {0, 0}, recv_cq_record[2] = {0, 0};
  std::uint64_t target = 0, end = 0, consumed = 0, recv_consumed = 0, receives = 0;
  wqe::send_queue_state state{};
  wqe::send_queue queue;
  device::recv_queue recv;
  device::key_table keys;
  std::uint32_t lkey = 0, rkey = 0, landing_key = 0;
  std::unique_ptr<device::receiver> peer;
  std::unique_ptr<device::memory_world> beyond;
  device::card_queue_options options;
  std::unique_ptr<device::card_queue> card;
};

inline wqe::send_request request_for(wqe::opcode op) {
  wqe::send_request r;
  r.op = op;
  return r;
}

}  // namespace lci::test
