// Active messages that are delivered in memory which the processor may not touch: in packets of a
// payload_pool, for completion objects with zero_copy_am on a device that has such a pool, and
// wherever an allocator of the user's puts them. Bytes that come from the host are copied there by
// the GPU, and the object is signalled when they are there; a rendezvous gets its destination
// before it is answered. One per channel.
// Threads: shared. Always true: a message waits here only for a packet, and a message in the
// network is held up (deferred) only when all packets are with the user: what operations hold may
// depend on messages behind it.
#pragma once

#include <atomic>
#include <cstddef>
#include <list>
#include <vector>

#include "lci/base/spinlock.hpp"
#include "lci/mem/payload_pool.hpp"
#include "lci/net/backend.hpp"
#include "lci/proto/devices.hpp"
#include "lci/proto/op.hpp"
#include "lci/proto/wire.hpp"

namespace lci::proto {

class channel;
class core;
struct recv_plan;
struct slot_set;

// Where an active message goes.
struct am_place {
  void* buffer = nullptr;
  allocator_base_t* allocator = nullptr;  // whose the buffer is; null: it is a packet
  mem::far_packet* payload = nullptr;     // of that packet, if it is one of a payload_pool
  mem::memory_place where;
};

// A message on its way from host memory of ours to GPU memory.
class am_copy final : public device_job {
 public:
  am_copy* pool_next = nullptr;
  void ended(std::string_view error) noexcept override;

 private:
  friend class payload_arrivals;
  channel* via_ = nullptr;
  user_side user_;
  am_place place_;
  slot_set* set_ = nullptr;    // the bytes are here,
  std::byte* heap_ = nullptr;  // or here
};

class payload_arrivals {
 public:
  explicit payload_arrivals(channel& via) : via_(via) {}  // throws std::bad_alloc

  // The pool that messages are delivered in; the last one that entered counts.
  void enter(mem::payload_pool& pool) noexcept;
  void leave(mem::payload_pool& pool) noexcept;
  bool is_on() const noexcept { return pool_.load(std::memory_order_relaxed) != nullptr; }

  // A small message for an object with zero_copy_am, while is_on().
  net::verdict deliver(comp_impl_t& to, int rank, const std::byte* data, std::size_t size,
                       tag_t tag) noexcept;
  // A message whose place is settled. Data is free again on return. False: no memory, and nothing
  // has happened.
  bool deliver_at(comp_impl_t& to, const status_t& status, const am_place& at,
                  const std::byte* data) noexcept;
  // A large one, while is_on(). Throws std::bad_alloc: nothing has changed.
  void on_rts(comp_impl_t& to, int rank, const wire::rts& request);

  // Those that wait for packets; answers how many got some.
  std::size_t serve_waiting() noexcept;
  void on_peer_gone(int rank) noexcept;

 private:
  enum class found : std::uint8_t { yes, later, never };
  struct waiting {
    comp_impl_t* to = nullptr;
    std::uint32_t serial = 0;  // of `to`
    int rank = -1;
    wire::rts request;             // size and tag also of a small one,
    std::vector<std::byte> bytes;  // which is here
    bool is_small = false;
  };
  found find(std::size_t size, am_place& out) noexcept;
  void take_place(std::size_t size, am_place& out);
  void wait_for_packet(waiting one);
  void start(comp_impl_t& to, std::uint32_t serial, int rank, const wire::rts& request,
             const am_place& at);
  void give_up_place(const am_place& at) noexcept;
  bool serve(waiting& first) noexcept;

  channel& via_;
  std::atomic<mem::payload_pool*> pool_{nullptr};
  std::atomic<bool> has_complained_{false};  // that the allocator gives nothing, since it last did
  base::spinlock lock_;
  std::list<waiting> waiting_;  // under lock_
};

// Finds out where a buffer is that an allocator gave; starts the accelerator if it is a GPU's.
// Throws argument_error and backend_error.
mem::memory_place settle_place(core& shared, const void* buffer);
// The buffer of an active message that will not be delivered. allocator null: it is a packet.
void give_back(core& shared, void* buffer, allocator_base_t* allocator) noexcept;

}  // namespace lci::proto
