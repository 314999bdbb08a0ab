// What the protocols of host memory ask of the code that handles the memory of accelerators. Asked
// only where a buffer is not in host memory, or the network cannot take it; without an
// accelerator a null object refuses. One per device. Threads: as the protocols that ask.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "lci/match/engine.hpp"
#include "lci/mem/memory_domain.hpp"
#include "lci/mem/region_table.hpp"
#include "lci/net/backend.hpp"
#include "lci/proto/engine/network_key.hpp"
#include "lci/proto/engine/wire.hpp"
#include "lci/proto/host/match_records.hpp"
#include "lci/proto/host/plans.hpp"

namespace lci::proto {

struct send_side;

// Where an active message goes.
struct am_place {
  void* buffer = nullptr;
  allocator_base_t* allocator = nullptr;  // whose the buffer is; null: it is a packet
  mem::far_packet* payload = nullptr;     // of that packet, if it is one of a payload_pool
  mem::memory_place where;
};

// Where the data of a receive with GPU memory at one end or both is to be written, if it is.
enum class target_way : std::uint8_t {
  network,  // by the network, which has registered the destination, if need be in `key`
  gpu,      // by a GPU of the sender: into `target`
  staged,   // receive_staged()
  none      // neither may be: the receive has ended
};
// Whether a write of a rendezvous reaches its destination.
enum class write_way : std::uint8_t {
  ready,   // by the network, or by side.write
  staged,  // the receiver has to make it staged
  none     // which gpu_path forbids: the send has ended, and both ends know it
};

class accelerator_hook {
 public:
  // Starts the accelerator of that memory, if it does not run. Throws backend_error.
  virtual void use(const mem::memory_domain& domain) = 0;

  // ---- posts ----
  // A message out of memory that is not the host's. Nothing: it asks by a rendezvous.
  virtual std::optional<errorcode_t> start_message(outgoing& out) = 0;
  // A put or get with such memory at one end or both. Nothing: the network carries it, with `key`
  // if memory was registered for it.
  virtual std::optional<errorcode_t> start_put(outgoing& out, network_key& key) = 0;
  virtual std::optional<errorcode_t> start_get(outgoing& out, network_key& key) = 0;

  // ---- receives ----
  // Before the record is filed under that key. Sets record.preposted if its sender is to be told.
  virtual void prepare(receive& record, int rank, tag_t tag, rcomp_t rcomp) = 0;
  // Afterwards, when the record may be free already: tells the sender.
  virtual void publish(int rank, wire::name preposted, match::engine& where) = 0;
  // The record has left its engine for a message that arrived, or was never filed. False: its
  // sender writes into it by itself, and the record is free for its pool.
  virtual bool withdraw(receive& record) noexcept = 0;
  // Copies a few bytes at once. False: not this way.
  virtual bool write_by_cpu(void* to, const void* from, std::size_t size) noexcept = 0;
  // Copies `data` to status.buffer, then signals. Takes over the receive, not the data. Throws
  // std::bad_alloc: nothing has changed.
  virtual void deliver(receive& to, const status_t& status, const std::byte* data) = 0;

  // ---- active messages ----
  // A small one for an object with zero_copy_am, while the device has a pool of payloads.
  virtual net::verdict deliver_am(comp_impl_t& to, int rank, const std::byte* data,
                                  std::size_t size, tag_t tag) noexcept = 0;
  // The request of a large one likewise. Throws std::bad_alloc: nothing has changed.
  virtual void on_rts(comp_impl_t& to, int rank, const wire::rts& request) = 0;
  // One whose place is settled. Data is free again on return. False: no memory, and nothing has
  // happened.
  virtual bool deliver_at(comp_impl_t& to, const status_t& status, const am_place& at,
                          const std::byte* data) noexcept = 0;

  // ---- rendezvous ----
  virtual target_way find_target(wire::name sender, const recv_plan& plan, mem::region& target,
                                 network_key& key, std::string& why_not) = 0;
  // With gpu_path direct both ends are told that this may not be, and why. Throws std::bad_alloc.
  virtual void receive_staged(wire::name sender, const recv_plan& plan,
                              const std::string& why_not) = 0;
  // Into host memory that the network cannot register. Throws std::bad_alloc.
  virtual void receive_in_pieces(wire::name sender, const recv_plan& plan) = 0;
  // Our send state `self` got an rtr with slots. Throws std::bad_alloc: nothing has changed.
  virtual void send_in_pieces(wire::name self, const send_plan& plan, const wire::rtr& to) = 0;
  virtual write_way prepare_write(wire::name self, send_side& side) noexcept = 0;
  // The other end has given up, and names a state of a transfer in pieces.
  virtual void on_drop_send(int rank, wire::name sender) noexcept = 0;
  virtual void on_drop_receive(int rank, wire::name receiver) noexcept = 0;
  // A GPU of that rank has said so, as immediate data, and it is still to be acted on.
  virtual bool has_heard(int rank, std::uint32_t imm) noexcept = 0;

  // ---- words ----
  // See mem::accelerator::atomic().
  virtual std::string_view change_word(mem::atomic_job& job) noexcept = 0;

 protected:
  ~accelerator_hook() = default;
};

// The null object: there is no memory but the host's.
accelerator_hook& no_accelerator() noexcept;

}  // namespace lci::proto
