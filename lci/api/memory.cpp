// Registered memory, user packets and the allocator of active messages.
#include "lci/memory.hpp"

#include <string>

#include "lci/api/buffers.hpp"
#include "lci/api/resolve.hpp"
#include "lci/errors.hpp"
#include "lci/mem/memory_domain.hpp"
#include "lci/mem/packet_hand.hpp"

namespace lci {

namespace {

// The first domain that can be used here; if there is none, one whose allocate() says why not.
const mem::memory_domain& memory_giver() {
  const std::span<const mem::memory_domain> all = mem::memory_domains();
  for (const mem::memory_domain& domain : all)
    if (domain.probe().empty()) return domain;
  return all.front();
}

}  // namespace

void* device_allocator_t::allocate(size_t size) {
  return memory_giver().allocate(size, gpu_, false);
}
void device_allocator_t::deallocate(void* ptr) {
  if (ptr != nullptr) memory_giver().release(ptr);
}
void* pinned_allocator_t::allocate(size_t size) {
  return memory_giver().allocate(size, gpu_, true);
}
void pinned_allocator_t::deallocate(void* ptr) {
  if (ptr != nullptr) memory_giver().release(ptr);
}

namespace detail {

mr_t register_memory(const register_memory_args& args) {
  api::check_buffer("register_memory: address", args.address, args.size);
  net_context_impl_t* context = nullptr;
  if (args.device.p_impl != nullptr) {
    api::check_given(args.runtime);
    context = &base::check_live(args.device.p_impl, "device")->context;
  } else {
    context = api::find_runtime(args.runtime).default_net_context.p_impl;
    base::check_live(context, "net_context");
  }
  api::check_room("register_memory: address", args.address, args.size, context->owner.core.arena);
  return mr_t(base::make_live<mr_impl_t>(*context, args.address, args.size));
}

void deregister_memory(const deregister_memory_args& args) {
  api::check_given(args.runtime);
  if (args.value.p_impl != nullptr) return base::free_live(args.value.p_impl, "mr");
  if (args.mr == nullptr)
    throw argument_error("deregister_memory: the pointer to the handle is null");
  base::free_live(args.mr->p_impl, "mr");
  *args.mr = mr_t();
}

rmr_t get_rmr(const get_rmr_args& args) {
  api::check_given(args.runtime);
  const mr_impl_t& mr = *base::check_live(args.mr.p_impl, "mr");
  rmr_t rmr;
  rmr.base = reinterpret_cast<std::uintptr_t>(mr.address);
  rmr.opaque_rkey = static_cast<std::uint64_t>(mr.name.generation) << 32 | mr.name.slot;
  const proto::core& core = mr.owner.core;
  rmr.mr_base = core.seal.check_of(rmr.base, rmr.opaque_rkey, core.me);
  return rmr;
}

void* get_upacket(const packet_pool_args& args) {
  packet_pool_impl_t& pool = api::find_packet_pool(args.runtime, args.packet_pool);
  if (pool.payloads != nullptr) {
    const mem::far_packet* const packet = pool.payloads->get();
    return packet == nullptr ? nullptr : packet->data;
  }
  mem::packet* packet = pool.packets.get();
  return packet == nullptr ? nullptr : packet->payload();
}

namespace {

// The address of a packet shows its owner: one of this process's arenas, or a peer that lent it.
// False: it is none of that runtime's.
bool return_to(const runtime_impl_t& runtime, void* payload) {
  const mem::arena& arena = runtime.core.arena;
  mem::packet* const packet = mem::packet_pool::held(arena, payload);
  if (packet != nullptr) mem::release_packet(arena, packet);
  return packet != nullptr;
}

__attribute__((noinline)) void put_packet(runtime_t given, void* payload) {
  if (payload == nullptr) throw argument_error("put_upacket: packet is null");
  const auto try_one = [payload](const runtime_impl_t& runtime) {
    return return_to(runtime, payload);
  };
  // The list has a lock, whose line would go from thread to thread with every packet.
  if (given.p_impl != nullptr && try_one(*given.p_impl)) return;
  if (runtime::global().runtimes.oldest(try_one)) [[likely]]
    return;
  if (runtime::global().runtimes.any_of(try_one)) return;
  runtime::refuse_fork("put_upacket");
  throw argument_error(
      "put_upacket: the pointer is not the start of a packet that the program owns");
}

[[gnu::noinline]] void put_otherwise(const put_upacket_args& args) {
  api::check_given(args.runtime);
  if (!mem::return_to_hand(args.packet)) put_packet(args.runtime, args.packet);
}

}  // namespace

void put_upacket(const put_upacket_args& args) {
  if (args.runtime.p_impl == nullptr && mem::return_to_hand(args.packet)) [[likely]]
    return;
  put_otherwise(args);
}

std::size_t get_max_bcopy_size(const packet_pool_args& args) {
  return api::find_packet_pool(args.runtime, args.packet_pool).max_bcopy();
}

void set_allocator(const allocator_args& args) {
  if (args.allocator == nullptr) throw argument_error("set_allocator: allocator is null");
  // edge core.allocator: partners are the calls that give memory back, such as nobody::signal().
  api::find_runtime(args.runtime).core.allocator.store(args.allocator, std::memory_order_release);
}

allocator_base_t* get_allocator(const allocator_args& args) {
  // edge core.allocator: partner is set_allocator().
  return api::find_runtime(args.runtime).core.allocator.load(std::memory_order_acquire);
}

}  // namespace detail
}  // namespace lci
