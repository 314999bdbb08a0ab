#include "lci/runtime/device.hpp"

#include <chrono>

#include "lci/base/log.hpp"
#include "lci/base/spin.hpp"
#include "lci/errors.hpp"
#include "lci/runtime/global.hpp"

namespace lci {

endpoint_impl_t::endpoint_impl_t(device_impl_t& d)
    : device(d),
      core(d.channel.shared),
      inject_limit(d.context.attr.max_inject_size),
      checks_pointers(d.context.attr.check_pointers),
      // Pointers are looked at on the long way.
      inject_now_limit(checks_pointers ? 0 : inject_limit),
      port(d.channel.make_port()),
      net(port->end()) {
  attr.uid = runtime::global().uids++;
  device.channel.add_port(*port);
  device.endpoints.push_back(this);
}

endpoint_impl_t::~endpoint_impl_t() {
  port->forget(-1);
  device.channel.remove_port(*port);
  forget(device.endpoints, this);
}

namespace {

net::device_config config_of(const device_attr_t& attr) {
  return {attr.net_max_sends,   attr.net_max_recvs,         attr.net_max_cqes,
          attr.ibv_td_strategy, attr.net_send_reserved_pct, attr.ofi_lock_mode};
}

int take_number(net_context_impl_t& net, const net::device_config& wanted) {
  const std::lock_guard lock(runtime::global().bootstrap_lock);
  return net.numbers.take(wanted, *runtime::global().bootstrap);
}

}  // namespace

device_impl_t::device_impl_t(net_context_impl_t& net, packet_pool_impl_t& packets,
                             const device_attr_t& wanted)
    : context(net),
      pool(packets.payloads == nullptr ? packets : *net.owner.internal_pool().p_impl),
      attr(wanted),
      number(take_number(net, config_of(wanted))),
      channel(net.owner.core, *net.fabric, number, config_of(wanted), pool.packets,
              net.wanted_msg_size) {
  if (packets.payloads != nullptr) channel.payloads.enter(*packets.payloads);
  attr.uid = runtime::global().uids++;
  attr.net_max_sends = channel.config.max_sends;
  attr.ibv_td_strategy = channel.config.ibv_td_strategy;
  attr.use_reg_cache = net.fabric->caps().keeps_registrations;
  if (wanted.shm_enable != net.has_local && net.has_local)
    base::log::warn("runtime",
                    "shm_enable of a device has no effect: a whole net context has shared memory "
                    "or not, by the default of this attribute (LCI_ATTR_SHM_ENABLE)");
  attr.shm_enable = net.has_local;
  channel.rdv_by_immediate = owner().attr.rdv_protocol == attr_rdv_protocol_t::writeimm;
  channel.way = net.attr.gpu_path;
  if (attr.alloc_default_endpoint)
    default_endpoint = endpoint_t(base::make_live<endpoint_impl_t>(*this));
  if (attr.alloc_progress_endpoint)
    progress_endpoint = endpoint_t(base::make_live<endpoint_impl_t>(*this));
  owner().devices.push_back(this);
  // Programs register their remote completions, allocate a device and then talk: nobody may be
  // talked to before it is ready.
  const std::lock_guard lock(runtime::global().bootstrap_lock);
  net.numbers.meet(*runtime::global().bootstrap);
}

device_impl_t::~device_impl_t() {
  drain();
  while (!endpoints.empty()) base::free_live(endpoints.back(), "endpoint");
  forget(owner().devices, this);
  context.numbers.give_back(number);
}

proto::raw_net& device_impl_t::raw() {
  std::call_once(raw_made_, [this] {
    raw_ = std::make_unique<proto::raw_net>(channel.device(), owner().core.arena, pool.packets);
  });
  return *raw_;
}

void device_impl_t::drain() noexcept {
  constexpr auto PATIENCE = std::chrono::seconds(5);
  const auto start = std::chrono::steady_clock::now();
  base::spin_wait wait;
  while (!channel.is_quiet()) {
    try {
      if (error_t(channel.progress()).is_done())
        wait.reset();
      else
        wait();
    } catch (const std::exception& problem) {
      base::log::warn("runtime", "while a device was being freed: %s", problem.what());
    }
    if (std::chrono::steady_clock::now() - start > PATIENCE) {
      base::log::warn("runtime", "a device was freed with %lld operations that did not complete",
                      static_cast<long long>(channel.open.sum()));
      return;
    }
  }
}

}  // namespace lci
