// Operations of a rank on itself: no network is asked. Owned by the queues of a device. Threads:
// posts shared, poll() the polling thread. Always true: what was accepted is presented once, in
// order; the queue is bounded, and full is retry.
#pragma once

#include <atomic>
#include <bit>
#include <cstdint>
#include <memory>
#include <mutex>

#include "lci/base/spinlock.hpp"
#include "lci/mem/packet_pool.hpp"
#include "lci/mem/region_table.hpp"
#include "lci/net/backend.hpp"

namespace lci::net {

class loopback {
 public:
  loopback(int rank, mem::packet_pool& packets, const mem::region_table& regions)
      : rank_(rank), packets_(packets), regions_(regions) {}
  ~loopback();

  errorcode_t send(std::uint32_t imm, const void* head, std::size_t head_size, const void* payload,
                   std::size_t size) noexcept;
  errorcode_t send(const net_op& op) noexcept;
  errorcode_t put(const net_op& op, bool has_imm) noexcept;
  errorcode_t get(const net_op& op) noexcept;
  // Presents up to `max`; answers how many.
  std::size_t poll(sink& to, std::size_t max) noexcept;
  // The sink is not told of those that wait. By the only thread that uses it.
  void forget_failures() noexcept;
  // edge loopback.told: partner is the end of poll().
  bool is_empty() const noexcept { return waiting_.load(std::memory_order_acquire) == 0; }

 private:
  static constexpr std::size_t DEPTH = 256;
  enum class what : std::uint8_t { message, immediate, error, forgotten_error };
  struct item {
    what kind;
    std::uint32_t imm;
    std::size_t size;
    mem::packet* packet;
    void* context;
  };
  // What a poll has taken out and a sink defers comes back in front, also where others have filled
  // the queue meanwhile.
  static constexpr std::size_t ROOM = 2 * DEPTH;
  static_assert(std::has_single_bit(ROOM), "places are counted past zero");
  errorcode_t push(const item& one) noexcept;
  item& at_locked(std::size_t i) noexcept { return ring_[i % ROOM]; }
  void* find(const net_op& op) const noexcept;
  errorcode_t refuse(const net_op& op) noexcept;

  const int rank_;
  mem::packet_pool& packets_;
  const mem::region_table& regions_;
  base::spinlock lock_;
  const std::unique_ptr<item[]> ring_{new item[ROOM]};
  std::size_t first_ = 0, end_ = 0;      // of those in the ring; under lock_
  std::atomic<std::size_t> waiting_{0};  // their number, and an error that is being told
};

}  // namespace lci::net
