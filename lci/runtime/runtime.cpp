#include "lci/runtime/runtime.hpp"

#include "lci/base/log.hpp"
#include "lci/base/undo.hpp"
#include "lci/boot/local_rank.hpp"
#include "lci/comp/free_guard.hpp"
#include "lci/errors.hpp"
#include "lci/match/make_engine.hpp"
#include "lci/mem/memory_domain.hpp"
#include "lci/proto/engine/packet_size.hpp"
#include "lci/runtime/attribute_text.hpp"
#include "lci/runtime/device.hpp"
#include "lci/runtime/global.hpp"

namespace lci {

namespace {

proto::wire::imm_layout layout_of(const runtime_attr_t& attr) {
  if (attr.imm_nbits_tag < 0 || attr.imm_nbits_rcomp < 0 ||
      attr.imm_nbits_tag + attr.imm_nbits_rcomp > 31)
    throw argument_error("imm_nbits_tag " + std::to_string(attr.imm_nbits_tag) +
                         " and imm_nbits_rcomp " + std::to_string(attr.imm_nbits_rcomp) +
                         " must not be negative, and together at most 31");
  if (attr.gpu_resident < 0 || attr.gpu_resident > 64)
    throw argument_error("gpu_resident " + std::to_string(attr.gpu_resident) +
                         " is not a number of blocks from 0 to 64");
  if (attr.max_handler_depth < 1 || attr.max_handler_depth > proto::MAX_HANDLER_DEPTH)
    throw argument_error("max_handler_depth " + std::to_string(attr.max_handler_depth) +
                         " is not a depth from 1 to " + std::to_string(proto::MAX_HANDLER_DEPTH));
  if (attr.failure_notice != attr_failure_notice_t::own &&
      attr.failure_notice != attr_failure_notice_t::all)
    throw argument_error("failure_notice " + std::to_string(static_cast<int>(attr.failure_notice)) +
                         " is neither own (0) nor all (1)");
  return {static_cast<std::uint32_t>(attr.imm_nbits_tag),
          static_cast<std::uint32_t>(attr.imm_nbits_rcomp)};
}

}  // namespace

packet_pool_impl_t::packet_pool_impl_t(runtime_impl_t& runtime, const packet_pool_attr_t& wanted,
                                       allocator_base_t* allocator)
    : owner(runtime),
      attr(wanted),
      packets(runtime.core.arena, proto::packet_bytes_for(wanted.packet_size),
              allocator == nullptr ? wanted.npackets : 0) {
  if (allocator != nullptr)
    payloads = std::make_unique<mem::payload_pool>(runtime.core.arena, packets, *allocator,
                                                   proto::longest_in_packet(packets),
                                                   wanted.npackets, &mem::find_place);
  attr.packet_size = proto::longest_in_packet(packets);
  owner.packet_pools.push_back(this);
}

packet_pool_impl_t::~packet_pool_impl_t() {
  owner.core.rcomps.for_each_engine([this](proto::match_target& one) {
    proto::matcher::of(one).part_with(owner.shared.host, packets);
  });
  if (payloads == nullptr) return;
  for (device_impl_t* device : owner.devices) device->queues.gpu.leave(*payloads);
}

std::size_t packet_pool_impl_t::max_bcopy() const noexcept {
  // Whatever the network takes in one piece, such a pool delivers all that its packets hold in
  // them.
  if (payloads != nullptr) return payloads->payload_size();
  return proto::longest_copy(packets, owner.core.max_send);
}

matching_engine_impl_t::matching_engine_impl_t(runtime_impl_t& runtime,
                                               const matching_engine_attr_t& wanted)
    : owner(runtime), attr(wanted), match(match::make_engine(wanted.matching_engine_type)) {
  base::make_room(owner.engines);
  owner.core.rcomps.add_engine(&match);
  owner.engines.push_back(this);  // there is room
}

matching_engine_impl_t::~matching_engine_impl_t() {
  owner.core.rcomps.remove_engine(match.first_rcomp);
  match.empty_st(owner.shared.host);
}

mem::memory_place place_of(proto::shared_state& shared, const void* address) {
  const mem::memory_place place = mem::find_place(address);
  if (!place.is_handled) throw argument_error(place.domain->refusal(address));
  if (place.kind != mem::mem_kind::host) shared.gpu.gpus.use(*place.domain);
  return place;
}

mr_impl_t::mr_impl_t(net_context_impl_t& network, void* a, std::size_t n)
    : owner(network.owner),
      address(a),
      size(n),
      place(place_of(owner.shared, a)),
      key(*network.fabric, network.fabric->caps(), network.attr.gpu_path, a, n, place.kind) {
  mem::region region{address, size, place.kind, {}, key.is_off()};
  base::undo entry([this]() noexcept { withdraw(); });
  if (place.kind != mem::mem_kind::host) {
    std::string why_not;
    mem::accelerator& gpus = *owner.shared.gpu.gpus.running();
    region.share = shared_ = gpus.share(address, size, why_not);
    gpus.hold_share(shared_, 1);
    if (region.share.record == 0)
      base::log::info("runtime", "local peers reach %zu bytes of %s through host memory: %s", size,
                      place.domain->describe(address).c_str(), why_not.c_str());
  }
  name = owner.core.regions.insert(region);
  network.fabric->publish({name.slot, name.generation}, key.get());
  const std::lock_guard lock(owner.regions_lock);
  owner.regions.push_back(this);
  entry.keep();
}

mr_impl_t::~mr_impl_t() {
  if (lci::runtime::extension* const above = owner.extension(); above != nullptr)
    above->on_region_ends(*this);
  {
    const std::lock_guard lock(owner.regions_lock);
    forget(owner.regions, this);
  }
  withdraw();
}

void mr_impl_t::withdraw() noexcept {
  owner.core.regions.erase(name);
  mem::accelerator* const gpus = owner.shared.gpu.gpus.running();
  if (place.kind == mem::mem_kind::host || gpus == nullptr) return;
  gpus->hold_share(shared_, -1);
  gpus->tidy();
}

runtime_impl_t::runtime_impl_t(const runtime_attr_t& wanted, const runtime::job_member& of)
    : member(of),
      attr(wanted),
      shared(of.rank, of.size, layout_of(wanted), of.ranks_here, of.most_reserve) {
  attr.max_imm_tag = core.imm.max_tag();
  attr.max_imm_rcomp = core.imm.max_rcomp();
  shared.gpu.gpus.set_resident(attr.gpu_resident);
  shared.gpu.gpus.set_gdrcopy(attr.gpu_gdrcopy);
  core.max_handler_depth = attr.max_handler_depth;
  core.max_handler_wait_s = attr.max_handler_wait_s;
  core.failure_notice = attr.failure_notice;
  if (core.n > 1 && member.is_job && member.boot().has_news()) core.failures = &failures_;
}

// What fails below leaves a whole object behind, which its destructor ends.
runtime_impl_t::runtime_impl_t(const runtime_attr_t& wanted, const std::string& device_name)
    : runtime_impl_t(wanted, runtime::member_of_job()) {
  net_context_attr_t network;
  static_cast<net_context_settings_t&>(network) = *member.defaults;
  if (!device_name.empty()) network.device_name = device_name;
  complete(*base::make_live<net_context_impl_t>(*this, network));
}

void runtime_impl_t::complete(net_context_impl_t& network) {
  const global_attr_t& defaults = *member.defaults;
  default_net_context = net_context_t(&network);
  if (attr.rdv_protocol == attr_rdv_protocol_t::auto_select)
    attr.rdv_protocol =
        network.may_use_putimm() ? attr_rdv_protocol_t::writeimm : attr_rdv_protocol_t::write;
  if (attr.alloc_default_packet_pool) {
    packet_pool_attr_t pool;
    static_cast<packet_pool_settings_t&>(pool) = defaults;
    default_packet_pool = packet_pool_t(base::make_live<packet_pool_impl_t>(*this, pool));
  }
  if (attr.alloc_default_matching_engine) {
    matching_engine_attr_t engine;
    static_cast<matching_engine_settings_t&>(engine) = defaults;
    default_matching_engine =
        matching_engine_t(base::make_live<matching_engine_impl_t>(*this, engine));
    collective_engine =
        matching_engine_t(base::make_live<matching_engine_impl_t>(*this, matching_engine_attr_t()));
  }
  if (attr.alloc_default_device) {
    device_attr_t device;
    static_cast<device_settings_t&>(device) = defaults;
    default_device =
        device_t(base::make_live<device_impl_t>(network, *internal_pool().p_impl, device));
  }
}

packet_pool_t runtime_impl_t::internal_pool() {
  if (!default_packet_pool.is_empty()) return default_packet_pool;
  if (hidden_pool_.is_empty()) {
    // The program has requested none, so its settings for one do not count: not npackets 0.
    packet_pool_attr_t pool;
    pool.packet_size = member.defaults->packet_size;
    runtime::check_settings<packet_pool_settings_t>("alloc_device", pool);
    hidden_pool_ = packet_pool_t(base::make_live<packet_pool_impl_t>(*this, pool));
  }
  return hidden_pool_;
}

runtime_impl_t::~runtime_impl_t() {
  free_children();
  unfinished.end_all();  // nothing is left to signal them
  comp::forget_free_guards(this);
}

// In the order in which the parts need each other. What the program allocated and forgot is freed
// first.
void runtime_impl_t::free_children() noexcept {
  if (const std::uint64_t dropped = shared.host.unwanted.dropped(); dropped != 0)
    base::log::info("runtime", "messages for empty completion objects, dropped %llu",
                    static_cast<unsigned long long>(dropped));
  if (!regions.empty())
    base::log::warn("runtime",
                    "%zu memory registrations were still alive when their runtime was freed",
                    regions.size());
  while (!regions.empty()) base::free_live(regions.back(), "mr");
  while (!devices.empty()) base::free_live(devices.back(), "device");
  extension_.store(nullptr, std::memory_order_relaxed);  // none is left to ask
  extension_owned_.reset();
  while (!engines.empty()) {
    matching_engine_impl_t* engine = engines.back();
    engines.pop_back();
    base::free_live(engine, "matching_engine");
  }
  while (!packet_pools.empty()) {
    packet_pool_impl_t* pool = packet_pools.back();
    packet_pools.pop_back();
    base::free_live(pool, "packet_pool");
  }
  shared.gpu.streams.close();
  shared.gpu.staging.unpin();
  shared.gpu.gpus.close();
  while (!net_contexts.empty()) {
    net_context_impl_t* context = net_contexts.back();
    net_contexts.pop_back();
    base::free_live(context, "net_context");
  }
}

}  // namespace lci
