// The receives of a device: a shared receive queue, and for each of its places a packet with the
// work request that posts it, prepared once. Owned by device_queues. Threads: the polling thread.
// Always true: a place is posted, or waits in the chain that is posted next, or has no packet since
// the program keeps the one that it had.
#pragma once

#include <cstdint>
#include <memory>

#include "backends/ibv/cards.hpp"
#include "backends/ibv/region.hpp"
#include "lci/base/platform.hpp"
#include "lci/mem/packet_pool.hpp"

namespace lci::ibv {

class receives {
 public:
  // One place; its address, with the lowest bit set, is the name of the work request.
  struct alignas(base::CACHE_LINE) place {
    ibv_recv_wr wr;  // next: in the chain, or in the list of places without packets
    ibv_sge part;
    mem::packet* packet;
  };
  static place& place_of(std::uint64_t id) noexcept {
    return *reinterpret_cast<place*>(id & ~std::uint64_t{1});
  }

  // Posts up to `most`, but no more than the card can hold. Throws backend_error.
  receives(const cards& on, regions& memory, mem::packet_pool& packets, std::size_t most);

  ibv_srq* queue() const noexcept { return srq_.get(); }
  std::uint32_t size() const noexcept { return size_; }
  // That receive has been used up: its packet is to be posted again.
  void again(place& used) noexcept {
    *tail_ = &used.wr;
    tail_ = &used.wr.next;
    ++chained_;
  }
  // The same, but its packet has got another owner.
  void replace(place& used) noexcept;
  // At the end of a poll: posts what is worth a call.
  void post_some() noexcept {
    if (chained_ + lacking_ >= worth_) post();
  }
  // Posts all that is not posted, as far as there are packets.
  void post() noexcept;
  bool are_all_posted() const noexcept { return chained_ + lacking_ == 0; }

 private:
  bool equip(place& empty) noexcept;
  void equip_empty() noexcept;

  regions& memory_;
  mem::packet_pool& packets_;
  const std::uint32_t size_;
  const std::uint32_t worth_;  // places that are posted together
  srq_handle srq_;
  const std::unique_ptr<place[]> places_;
  // Not posted: with a packet, and without.
  ibv_recv_wr* head_ = nullptr;
  ibv_recv_wr** tail_ = &head_;  // where the next one is chained; what it holds is not read before
  ibv_recv_wr* empty_ = nullptr;
  std::uint32_t chained_ = 0, lacking_ = 0;  // how many
};

}  // namespace lci::ibv
