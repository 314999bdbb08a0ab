// What the protocols between host buffers keep of one device, with the engine under them. Owned by
// the device's queues. Threads: shared. Always true: what is not host memory is the accelerator's
// business.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "lci/attr.hpp"
#include "lci/base/counters.hpp"
#include "lci/base/spinlock.hpp"
#include "lci/mem/payload_pool.hpp"
#include "lci/proto/engine/network_key.hpp"
#include "lci/proto/engine/progress_engine.hpp"
#include "lci/proto/host/accelerator_hook.hpp"
#include "lci/proto/host/am_window.hpp"
#include "lci/proto/host/match_records.hpp"
#include "lci/proto/host/rendezvous.hpp"

namespace lci::proto {

// What becomes of receives from a rank that left: when all that it had sent is in, those that
// are left here end. The thread that has begun that says when it is over.
enum class parting : std::uint8_t { not_yet, begun, over };

class host_context {
 public:
  host_context(host_common& all, net::fabric& fabric, int index, const net::device_config& wanted,
               mem::packet_pool& pool, std::size_t max_piece)
      : engine(all.core, fabric, index, wanted, pool, max_piece),
        common(all),
        parted_(static_cast<std::size_t>(all.core.n)) {}

  // A receive and the request that has met it: there was no memory to answer. A later round does.
  LCI_COLD void answer_later(receive& to, message& request) noexcept;
  // Those that are there now, in a list through pool_next.
  message* take_answers() noexcept;

  // edge host.parting: partners are begin_parting() and end_parting().
  parting parted_from(int rank) const noexcept {
    return parted_[static_cast<std::size_t>(rank)].load(std::memory_order_acquire);
  }
  // False: another thread has.
  bool begin_parting(int rank) noexcept {
    parting before = parting::not_yet;
    // edge host.parting: partner is parted_from(), by way of the lock of the matching engine for
    // what is filed meanwhile.
    return parted_[static_cast<std::size_t>(rank)].compare_exchange_strong(
        before, parting::begun, std::memory_order_acq_rel);
  }
  void end_parting(int rank) noexcept {
    // edge host.parting
    parted_[static_cast<std::size_t>(rank)].store(parting::over, std::memory_order_release);
  }

  void expect_leftovers(int change) noexcept {
    protocols->count_waiting(change);
    engine.expect_leftovers(change);
  }

  progress_engine engine;
  host_common& common;
  part* protocols = nullptr;                          // set before the first message
  accelerator_hook* accelerator = &no_accelerator();  // likewise
  rendezvous_states rendezvous;
  am_window window;
  base::thread_counter open_receives;  // receives posted and not completed
  // Active messages with zero_copy_am are delivered in its packets, if there is one; not owned.
  std::atomic<mem::payload_pool*> payloads{nullptr};
  // That GPUs have for this device, whichever device brought the message. Changed and read by
  // lci/proto/gpu.
  std::atomic<std::size_t> gpu_copies{0};
  // Attributes, set before the first message.
  bool rdv_by_immediate = true;  // rendezvous ends with immediate data where the network has it
  attr_gpu_path_t gpu_path = attr_gpu_path_t::auto_select;

 private:
  base::spinlock lock_;
  message* answers_ = nullptr;                // under lock_
  std::vector<std::atomic<parting>> parted_;  // by rank
};

// What to send along with the name of one of our registrations, to that rank.
inline wire::target target_of(host_context& host, int rank, wire::name region) noexcept {
  net::fabric& fabric = host.engine.fabric;
  if (!fabric.caps_of(rank).needs_keys) return {};
  const net::remote_target at = fabric.target_of({region.slot, region.generation});
  return {at.address, at.key, at.more};
}
inline net::remote_target read_target(const wire::target& at) noexcept {
  return {at.address, at.key, at.more};
}

// Whether what leads to that rank reads and writes such memory itself. Host memory always is. If
// not, the accelerator decides. Of GPU memory only once it is registered, which may fail for one
// buffer and not for the next.
inline bool is_for_network(const host_context& host, int rank, mem::mem_kind kind) noexcept {
  return kind == mem::mem_kind::host ||
         may_register(host.engine.fabric.caps_of(rank), host.gpu_path, kind);
}
inline bool is_for_network(const host_context& host, const send_plan& plan) noexcept {
  return !plan.off_network && is_for_network(host, plan.rank, plan.kind);
}
inline bool is_for_network(const host_context& host, int rank,
                           const net::remote_view& there) noexcept {
  return !there.off_network && is_for_network(host, rank, there.kind);
}
// The registration of a buffer for one operation with that rank. Throws what network_key throws.
inline network_key key_for(const host_context& host, int rank, void* address, std::size_t size,
                           mem::mem_kind kind) {
  net::fabric& fabric = host.engine.fabric;
  return {fabric, fabric.caps_of(rank), host.gpu_path, address, size, kind};
}

}  // namespace lci::proto
