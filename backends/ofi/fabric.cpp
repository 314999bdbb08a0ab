#include "backends/ofi/fabric.hpp"

#include <algorithm>

#include "backends/ofi/device.hpp"
#include "lci/base/log.hpp"
#include "lci/errors.hpp"
#include "lci/mem/region_table.hpp"

namespace lci::ofi {
namespace {

// Before any member is made.
const net::fabric_config& checked(const net::fabric_config& config) {
  if (config.book == nullptr || config.arena == nullptr || config.regions == nullptr)
    throw backend_error("ofi: a fabric needs an address book, an arena and a table of regions");
  return config;
}

fabric_handle open_fabric(const candidate& chosen) {
  fid_fabric* out = nullptr;
  const int rc = library().fabric(chosen.info->fabric_attr, &out, nullptr);
  if (rc != 0) throw_error("fi_fabric", chosen.name(), rc);
  return fabric_handle(out);
}

domain_handle open_domain(fid_fabric* on, const candidate& chosen) {
  fid_domain* out = nullptr;
  const int rc = fi_domain(on, chosen.info.get(), &out, nullptr);
  if (rc != 0) throw_error("fi_domain", chosen.name(), rc);
  return domain_handle(out);
}

// What fits a receive beside its header line, in two pages.
constexpr std::size_t MAX_SEND = 8192 - sizeof(mem::packet);

net::capabilities capabilities_of(const candidate& chosen, std::size_t head,
                                  const net::fabric_config& config) {
  const fi_info& info = *chosen.info;
  net::capabilities caps;
  const std::size_t limit = info.tx_attr->inject_size;
  caps.max_inject =
      std::max(LEAST_INJECT, std::min(config.max_inject_wanted, limit > head ? limit - head : 0));
  caps.max_send = MAX_SEND;
  caps.max_rma = std::min<std::size_t>(info.ep_attr->max_msg_size, std::size_t{1} << 40);
  caps.write_with_immediate = has_write_data(info);
  caps.one_sided = makes_progress_alone(info);
  caps.device_memory = (info.caps & FI_HMEM) != 0;
  caps.outlives_stale_keys = false;
  caps.ordered = keeps_message_order(info);
  caps.orders_puts = keeps_write_order(info);
  if (info.ep_attr->max_msg_size < MAX_SEND)
    throw backend_error("ofi: " + chosen.name() + " sends at most " +
                        bytes_text(info.ep_attr->max_msg_size) + " at once, " +
                        bytes_text(MAX_SEND) + " are needed");
  return caps;
}

candidate choose_for(const net::fabric_config& config, std::string& why) {
  return choose(wishes_of(checked(config)), why);
}

}  // namespace

fabric::fabric(const net::fabric_config& config)
    : config_(config),
      chosen_(choose_for(config, why_)),
      fabric_(open_fabric(chosen_)),
      handle_(open_domain(fabric_.get(), chosen_)),
      domain_{chosen_.info.get(), fabric_.get(), handle_.get(), chosen_.name()},
      caps_(capabilities_of(chosen_, head(), config_)),
      connector_(domain_, *config_.book, *config_.arena),
      memory_(domain_, connector_.endpoint(), config_),
      lookups_(config_.book->size()) {
  caps_.keeps_registrations = memory_.is_keeping();
  connector_.start(memory_);
  base::ticks_per_ms();  // measured here rather than in the first poll
  log::info("ofi", "%s, %s: %s", domain_.name.c_str(), why_.c_str(), describe(chosen_).c_str());
}

// Without leave() before, peers take this for a death, after what was sent to them.
fabric::~fabric() {
  if (has_left_) return;
  ports_.for_each([](port& one) { one.leave(false); });
}

std::unique_ptr<net::device> fabric::make_device(int index, net::device_config& config) {
  port& where = ports_.get(index, [&] {
    auto made = std::make_unique<port>(*this, index, config);
    connector_.add_port(*made);
    return made;
  });
  config = where.config();
  return std::make_unique<device>(*this, where);
}

void fabric::connect(int rank) noexcept {
  if (rank != config_.book->rank()) ports_.request(rank);
}

net::remote_view fabric::check_remote(int rank, net::remote_key key) noexcept {
  if (rank == config_.book->rank())
    return net::view_of(config_.regions->look_up({key.slot, key.generation}));
  const net::remote_view found = lookups_.find(rank, key);
  if (found.what == net::remote_view::answer::not_connected) connect(rank);
  return found;
}

std::uint64_t fabric::register_region(void* address, std::size_t size, mem::mem_kind kind,
                                      std::string& why_not) {
  // The arena is registered by us, span by span.
  if (config_.arena->contains(address)) return 0;
  return memory_.add(address, size, kind, why_not);
}

// Who was told of it hears before anything that is sent on that device from now on.
void fabric::deregister_region(std::uint64_t local_key) noexcept {
  net::remote_key name;
  for (const net::connected::reader& who : memory_.remove(local_key, &name)) {
    note said;
    said.what = note::kind::withdrawn;
    said.slot = name.slot;
    said.generation = name.generation;
    ports_.with(who.device, [&](port& one) { one.tell(who.rank, said); });
  }
}

void fabric::publish(net::remote_key name, std::uint64_t local_key) {
  memory_.publish(name, local_key);
}

net::remote_target fabric::target_of(net::remote_key name) noexcept {
  return memory_.target_of(name);
}

void fabric::leave() noexcept {
  if (has_left_.exchange(true, std::memory_order_relaxed)) return;
  ports_.for_each([](port& one) { one.leave(true); });
  connector_.leave();
}

}  // namespace lci::ofi
