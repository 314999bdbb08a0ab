// Active messages that are delivered in memory which the processor may not touch: in packets of a
// payload_pool, for completion objects with zero_copy_am on a device that has such a pool, and
// wherever an allocator of the user's puts them. Bytes that come from the host are copied there by
// the GPU, and the object is signalled when they are there; a rendezvous gets its destination
// before it is answered. One per device.
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
#include "lci/proto/engine/op.hpp"
#include "lci/proto/engine/wire.hpp"
#include "lci/proto/host/accelerator_hook.hpp"

namespace lci::proto::gpu {

struct context;
struct slot_set;

class payload_arrivals {
 public:
  explicit payload_arrivals(context& ctx) noexcept : ctx_(ctx) {}

  // The pool that messages are delivered in; the last one that entered counts.
  void enter(mem::payload_pool& pool) noexcept;
  void leave(mem::payload_pool& pool) noexcept;

  // A small message for an object with zero_copy_am, while there is one.
  net::verdict deliver(comp_impl_t& to, int rank, const std::byte* data, std::size_t size,
                       tag_t tag) noexcept;
  // A message whose place is settled. Data is free again on return. False: no memory, and nothing
  // has happened.
  bool deliver_at(comp_impl_t& to, const status_t& status, const am_place& at,
                  const std::byte* data) noexcept;
  // A large one, while there is one. Throws std::bad_alloc: nothing has changed.
  void on_rts(comp_impl_t& to, int rank, const wire::rts& request);

  // Those that wait for packets; answers how many got some.
  std::size_t serve_waiting() noexcept;
  void on_peer_ended(int rank) noexcept;

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

  context& ctx_;
  std::atomic<bool> has_complained_{false};  // that the allocator gives nothing, since it last did
  base::spinlock lock_;
  std::list<waiting> waiting_;  // under lock_
};

}  // namespace lci::proto::gpu
