// The host calls of gpu.hpp: arguments are checked, handles become objects.
#include <algorithm>
#include <cstring>
#include <string>

#include "lci/api/remote_name.hpp"
#include "lci/api/resolve.hpp"
#include "lci/api/waiting.hpp"
#include "lci/errors.hpp"
#include "lci/gpu.hpp"
#include "lci/memory.hpp"
#include "lci/proxy/side.hpp"
#include "lci/proxy/tier.hpp"
#include "lci/runtime/attribute_text.hpp"

namespace lci {
namespace {

using proxy::endpoint;
using proxy::side;

[[noreturn]] void throw_setting(const char* who, const char* name, std::uint64_t value,
                                const std::string& legal) {
  throw argument_error(std::string(who) + ": " + name + " is " + std::to_string(value) +
                       "; legal are " + legal);
}

void check_power(const char* who, const char* name, std::uint32_t value, std::uint32_t low,
                 std::uint32_t high) {
  if (value >= low && value <= high && (value & (value - 1)) == 0) return;
  throw_setting(who, name, value,
                "powers of two from " + std::to_string(low) + " to " + std::to_string(high));
}
void check_most(const char* who, const char* name, std::uint64_t value, std::uint64_t high) {
  if (value > high) throw_setting(who, name, value, "0 to " + std::to_string(high));
}

// The GPU that is current in this thread; NO_GPU: none, or it is not known.
int find_current(const mem::memory_domain& domain, int count) {
  const std::string chosen =
      domain.chosen_device == nullptr ? std::string() : domain.chosen_device();
  for (int i = 0; !chosen.empty() && domain.pci_of != nullptr && i < count; ++i)
    if (domain.pci_of(i) == chosen) return i;
  return gpu::NO_GPU;
}

// The number of the GPU that is meant. Throws argument_error for one that is not there.
int find_gpu(int wanted) {
  constexpr const char* WHO = "alloc_gpu_endpoint";
  if (wanted == gpu::NO_GPU) return wanted;
  if (wanted < 0 && wanted != gpu::CURRENT_GPU)
    throw argument_error(std::string(WHO) + ": gpu is " + std::to_string(wanted) +
                         "; legal are NO_GPU (-1), CURRENT_GPU (-2) and the numbers of GPUs");
  const mem::memory_domain& domain = proxy::gpu_domain();
  const int count = domain.report == nullptr ? 1 << 10 : static_cast<int>(domain.report().size());
  if (wanted >= count)
    throw argument_error(std::string(WHO) + ": gpu is " + std::to_string(wanted) + "; there are " +
                         std::to_string(count));
  if (wanted >= 0) return wanted;
  const int current = find_current(domain, count);
  if (current != gpu::NO_GPU) return current;
  throw argument_error(std::string(WHO) +
                       ": no GPU is current in this thread; name one with .gpu(), or NO_GPU for "
                       "threads of the process");
}

// Numbers of one runtime's table name other memory in another's.
void check_runtime(const endpoint* of, const runtime_impl_t& owner, const char* what) {
  if (of == nullptr || &of->device().owner() == &owner) return;
  throw argument_error(std::string("get_gpu_key: ") + what +
                       " another runtime than the endpoint's");
}

// Where kernels of that endpoint reach own memory; 0: nowhere.
std::uint64_t mapped_own(const endpoint* of, const mr_impl_t& region) {
  if (of == nullptr) return 0;
  const auto address = reinterpret_cast<std::uintptr_t>(region.address);
  const bool is_host = region.place.kind == mem::mem_kind::host;
  const int gpu = of->settings().gpu;
  if (gpu == gpu::NO_GPU) return is_host ? address : 0;
  // The atomic operations of a GPU on host memory are none for processors: they take requests.
  if (is_host) return 0;
  return region.place.device == gpu ? address : 0;
}

// Of a card's endpoint: the key that the card knows.
void name_for_card(const endpoint& of, const mr_impl_t& region, gpu::key_t& key) {
  if (!region.key.is_of(*of.device().context.fabric))
    throw argument_error(
        "get_gpu_key: the region is registered with another network than the endpoint's; give "
        "register_memory the endpoint's device");
  key.key = of.card_key_of(region.key.get());
  key.of_card = 1;
  if (key.key == 0)
    throw backend_error("get_gpu_key: the card of the endpoint has no registration of that region");
}

gpu::key_t key_of_own(side& in, mr_impl_t& region, const endpoint* of) {
  gpu::key_t key;
  key.base = reinterpret_cast<std::uintptr_t>(region.address);
  key.length = region.size;
  key.mapped = mapped_own(of, region);
  key.is_near = key.mapped != 0 && region.place.kind == mem::mem_kind::device ? 1 : 0;
  key.rank = region.owner.core.me;
  key.key = key.message_key = in.all_keys.of(region, get_rmr_x(mr_t(&region)).call(), key.rank);
  if (of != nullptr && of->is_over_card()) name_for_card(*of, region, key);
  return key;
}

mr_impl_t& find_own_region(runtime_impl_t& owner, const rmr_t& rmr) {
  const net::remote_key name = api::key_of(rmr);
  const std::lock_guard lock(owner.regions_lock);
  for (mr_impl_t* const one : owner.regions)
    if (one->name.slot == name.slot && one->name.generation == name.generation) return *one;
  throw argument_error("get_gpu_key: rmr names no memory that this rank has registered");
}

// What the owner's table says of a region. Makes progress until the owner was met.
net::remote_view look_up(device_impl_t& device, const rmr_t& rmr, int rank) {
  net::remote_view there;
  const api::remote_span at{rank, rmr, 0, 0, "offset"};
  api::waiting wait(device.queues);
  while (!api::check_remote(at, device.queues.engine(), there)) {
    wait.progress([&]() noexcept { return base::waiting_call{"first contact", nullptr, rank}; });
    device.queues.engine().watch.check(rank);
  }
  return there;
}

// By which number the card of that rank knows the region.
std::uint32_t card_key_at_peer(device_impl_t& device, const rmr_t& rmr, int rank) {
  const net::remote_key name = api::key_of(rmr);
  proto::card_question question;
  question.rank = rank;
  question.ask.matter = proto::wire::card_matter::key;
  question.ask.about = {name.slot, name.generation};
  std::uint32_t key = 0;
  try {
    const proto::wire::card_answer& said = proxy::ask(device, question);
    if (said.size == sizeof(key)) std::memcpy(&key, said.address, sizeof(key));
    if (key == 0)
      throw proxy::tier_error("rank " + std::to_string(rank) + " has answered with no key");
  } catch (const proxy::tier_error& error) {
    if (question.answer.result == proto::wire::card_result::no_region)
      throw argument_error(std::string("get_gpu_key: ") + error.what());
    throw backend_error(std::string("get_gpu_key: ") + error.what());
  }
  return key;
}

// Where kernels of that endpoint reach a peer's memory, if they do.
void map_peer(endpoint& of, const net::remote_view& there, gpu::key_t& key) {
  const int gpu = of.settings().gpu, rank = key.rank;
  if (gpu == gpu::NO_GPU || there.kind != mem::mem_kind::device || there.share.record == 0) return;
  net::fabric& fabric = *of.device().context.fabric;
  mem::peer_range range;
  range.rank = rank;
  range.record = fabric.reach(rank, there.share.record, mem::SHARE_RECORD_BYTES);
  if (range.record == nullptr) return;
  range.pid = fabric.process_of(rank);
  range.check = there.share.check;
  range.address = there.address;
  range.size = there.size;
  std::string why_not;
  mem::accelerator& gpus = of.device().owner().shared.gpu.gpus.use(proxy::gpu_domain());
  mem::mapped_memory mapped = gpus.map(range, gpu, why_not);
  if (!mapped) return;
  key.mapped = reinterpret_cast<std::uintptr_t>(mapped.at());
  key.no_atomics = gpus.has_peer_atomics(range, gpu) ? 0 : 1;
  of.keep(std::move(mapped));
}

gpu::key_t key_of_peer(side& in, const detail::get_gpu_key_args& a, endpoint* of) {
  const proto::core& core = in.owner().core;
  if (a.rmr.is_empty()) throw argument_error("get_gpu_key: rmr is empty: it names no memory");
  gpu::key_t key;
  key.base = a.rmr.base;
  key.length = gpu::UNKNOWN_LENGTH;
  key.rank = a.rank;
  if (a.rank != gpu::ANY_RANK) {
    if (a.rank < 0 || a.rank >= core.n)
      throw argument_error("get_gpu_key: rank " + std::to_string(a.rank) + " is not in 0.." +
                           std::to_string(core.n - 1));
    api::check_rmr(a.rmr, a.rank, core);
    if (a.rank == core.me) return key_of_own(in, find_own_region(in.owner(), a.rmr), of);
    core.peers.check(a.rank);
    device_impl_t* const device = of != nullptr ? &of->device() : in.owner().default_device.p_impl;
    if (device != nullptr) {
      const net::remote_view there = look_up(*device, a.rmr, a.rank);
      key.length = there.size;
      if (of != nullptr) map_peer(*of, there, key);
    }
  }
  if (of != nullptr && of->is_over_card()) {
    if (a.rank == gpu::ANY_RANK)
      throw argument_error(
          "get_gpu_key: an endpoint over a card needs the rank that owns the region");
    key.key = card_key_at_peer(of->device(), a.rmr, a.rank);
    key.message_key = in.all_keys.of(a.rmr, a.rank, of);
    key.of_card = 1;
    return key;
  }
  // One of our own is served as that: a signal in it is one store, not a copy of bytes.
  const bool is_own = core.seal.check_of(a.rmr.base, a.rmr.opaque_rkey, core.me) == a.rmr.mr_base;
  key.key = is_own ? key_of_own(in, find_own_region(in.owner(), a.rmr), nullptr).key
                   : in.all_keys.of(a.rmr, a.rank, of);
  return key;
}

}  // namespace

namespace detail {

gpu::endpoint_t alloc_gpu_endpoint(const alloc_gpu_endpoint_args& a) {
  constexpr const char* WHO = "alloc_gpu_endpoint";
  device_impl_t& device = api::find_device(WHO, a.runtime, a.device);
  if (device.default_endpoint.is_empty())
    throw argument_error(std::string(WHO) +
                         ": the device has no default endpoint, over which requests would go");
  const runtime_attr_t& defaults = device.owner().attr;
  proxy::endpoint_settings wanted;
  wanted.proxy = a.proxy.get_value_or(defaults.gpu_proxy);
  attr_gpu_tier_t tier = a.tier.get_value_or(defaults.gpu_tier);
  const runtime::settings_check check{WHO};
  check("gpu_proxy", wanted.proxy);
  check("gpu_tier", tier);
  check_power(WHO, "depth", a.depth, 16, wqe::MAX_RING_BLOCKS);
  check_most(WHO, "max_inline", a.max_inline, proxy::MAX_INLINE);
  check_most(WHO, "wait_limit_ms", a.wait_limit_ms, std::uint64_t{1} << 40);
  check_power(WHO, "receives", a.receives, 1, 1u << 20);
  proxy::tier_question asked;
  asked.wanted = tier;
  asked.proxy = wanted.proxy;
  asked.is_for_gpu = a.gpu != gpu::NO_GPU;
  asked.card = device.context.fabric->card_for_kernels();
  wanted.gpu = find_gpu(a.gpu);
  wanted.depth = a.depth;
  wanted.max_inline = a.max_inline;
  wanted.wait_limit_ms = a.wait_limit_ms;
  wanted.receives = a.receives;
  const attr_gpu_proxy_t how = wanted.proxy;
  return proxy::make_of_tier(asked, [&](attr_gpu_tier_t chosen) {
    wanted.tier = chosen;
    // The processor's part of a card's tier, and errors, need a thread that looks.
    wanted.proxy = chosen != attr_gpu_tier_t::proxy && how == attr_gpu_proxy_t::off
                       ? attr_gpu_proxy_t::progress
                       : how;
    return side::of(device.owner()).make_endpoint(device, wanted).handle();
  });
}

void free_gpu_endpoint(const gpu_endpoint_args& a) {
  api::check_given(a.runtime);
  if (a.endpoint == nullptr)
    throw argument_error("free_gpu_endpoint: the pointer to the handle is null");
  side::found_endpoint found = side::find(*a.endpoint, "free_gpu_endpoint");
  *a.endpoint = gpu::endpoint_t();
  endpoint& one = *found.one;
  found.one.reset();  // this call is none that it waits for
  found.in->end_endpoint(one);
}

void abort_gpu_endpoint(const gpu_endpoint_args& a) {
  api::check_given(a.runtime);
  if (a.endpoint == nullptr)
    throw argument_error("abort_gpu_endpoint: the pointer to the handle is null");
  side::find(*a.endpoint, "abort_gpu_endpoint").one->abort();
}

void check_gpu_endpoint(const gpu_endpoint_args& a) {
  constexpr const char* WHO = "check_gpu_endpoint";
  api::check_given(a.runtime);
  if (a.endpoint == nullptr)
    throw argument_error(std::string(WHO) + ": the pointer to the handle is null");
  const int gpu = side::find(*a.endpoint, WHO).one->settings().gpu;
  if (gpu == gpu::NO_GPU) return;
  const mem::memory_domain& domain = proxy::gpu_domain();
  if (domain.chosen_device == nullptr || domain.pci_of == nullptr) return;  // it is not known
  // By address: a kernel is not launched for the price of a report on all GPUs.
  const std::string chosen = domain.chosen_device();
  if (!chosen.empty() && chosen == domain.pci_of(gpu)) return;
  throw argument_error(std::string(WHO) + ": the endpoint is of GPU " + std::to_string(gpu) +
                       (chosen.empty()
                            ? ", and no GPU is current in this thread"
                            : ", and the one at " + chosen + " is current in this thread"));
}

gpu::key_t get_gpu_key(const get_gpu_key_args& a) {
  side::found_endpoint found{};
  if (!a.endpoint.is_empty()) found = side::find(a.endpoint, "get_gpu_key");
  endpoint* const of = found.one.get();
  side* in = found.in;
  if (a.mr.is_empty() && a.mr.p_impl != nullptr)
    throw argument_error("get_gpu_key: mr names a kind of memory, not a region");
  if (a.mr.p_impl == nullptr) {
    if (in == nullptr || a.runtime.p_impl != nullptr) {
      runtime_impl_t& given = api::find_runtime(a.runtime);
      check_runtime(of, given, "runtime is");
      in = &side::of(given);
    }
    return key_of_peer(*in, a, of);
  }
  api::check_given(a.runtime);
  mr_impl_t& region = *base::check_live(a.mr.p_impl, "mr");
  check_runtime(of, region.owner, "the region belongs to");
  if (a.rank != gpu::ANY_RANK && a.rank != region.owner.core.me)
    throw argument_error("get_gpu_key: rank is " + std::to_string(a.rank) +
                         ", but the region belongs to this rank, " +
                         std::to_string(region.owner.core.me));
  return key_of_own(side::of(region.owner), region, of);
}

gpu::queue_t alloc_gpu_queue(const alloc_gpu_queue_args& a) {
  constexpr const char* WHO = "alloc_gpu_queue";
  api::check_given(a.runtime);
  const side::found_endpoint found = side::find(a.endpoint, WHO);
  check_power(WHO, "capacity", a.capacity, 1, 1u << 20);
  check_most(WHO, "message_size", a.message_size, 65536);
  gpu::queue_t queue;
  queue.record = found.in->make_queue(*found.one, a.capacity, a.message_size).record();
  return queue;
}

void free_gpu_queue(const gpu_queue_args& a) {
  api::check_given(a.runtime);
  if (a.queue == nullptr) throw argument_error("free_gpu_queue: the pointer to the handle is null");
  const side::found_queue found = side::find(*a.queue, "free_gpu_queue");
  *a.queue = gpu::queue_t();
  found.in->end_queue(*found.one);
}

comp_t get_gpu_queue_comp(const gpu_queue_args& a) {
  api::check_given(a.runtime);
  if (a.queue == nullptr)
    throw argument_error("get_gpu_queue_comp: the pointer to the handle is null");
  return comp_t(side::find(*a.queue, "get_gpu_queue_comp").one);
}

}  // namespace detail
}  // namespace lci
