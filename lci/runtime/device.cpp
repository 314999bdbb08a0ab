#include "lci/runtime/device.hpp"

#include <chrono>
#include <exception>
#include <utility>

#include "lci/base/log.hpp"
#include "lci/base/spin.hpp"
#include "lci/base/undo.hpp"
#include "lci/errors.hpp"
#include "lci/runtime/meeting.hpp"

namespace lci {

endpoint_impl_t::endpoint_impl_t(device_impl_t& d)
    : device(d),
      core(d.queues.engine().shared),
      inject_limit(d.context.attr.max_inject_size),
      checks_pointers(d.context.attr.check_pointers),
      // With check_pointers, pointers are only looked at on the slow path.
      inject_now_limit(checks_pointers ? 0 : inject_limit),
      bcopy_limit(d.queues.engine().max_copy),
      queue(d.queues.engine().lend_queue()),
      net(queue->end()) {
  device.endpoints.push_back(this);
  attr.uid = device.owner().member.made->endpoints++;
}

endpoint_impl_t::~endpoint_impl_t() { forget(device.endpoints, this); }

namespace {

net::device_config config_of(const device_attr_t& attr) {
  return {attr.net_max_sends,         attr.net_max_recvs, attr.net_max_cqes, attr.ibv_td_strategy,
          attr.net_send_reserved_pct, attr.ofi_lock_mode, attr.shm_max_polls};
}

// Makes progress on the other devices of a runtime. An exception thrown there is not ours: the
// first one is kept for the next progress of its device, and nothing more is done here after it.
class progress_of_others {
 public:
  explicit progress_of_others(const device_impl_t& one) : one_(one) {}
  ~progress_of_others() {
    if (problem_ != nullptr) thrower_->keep(std::move(problem_));
  }
  progress_of_others(const progress_of_others&) = delete;
  progress_of_others& operator=(const progress_of_others&) = delete;

  bool progress() noexcept {
    bool is_any = false;
    for (device_impl_t* const each : one_.owner().devices) {
      if (each == &one_ || problem_ != nullptr || each->is_raw()) continue;
      try {
        is_any |= error_t(each->queues.progress_in_wait()).is_done();
      } catch (...) {
        problem_ = std::current_exception();
        thrower_ = &each->queues.engine().errors;
      }
    }
    return is_any;
  }

 private:
  const device_impl_t& one_;
  std::exception_ptr problem_;
  proto::pending_errors* thrower_ = nullptr;
};

int take_number(net_context_impl_t& net, const net::device_config& wanted) {
  runtime::meeting all(net.owner);
  return net.numbers.take(wanted, all.boot(), all.work());
}

}  // namespace

device_impl_t::device_impl_t(net_context_impl_t& net, packet_pool_impl_t& packets,
                             const device_attr_t& wanted)
    : context(net),
      pool(packets.payloads == nullptr ? packets : *net.owner.internal_pool().p_impl),
      attr(wanted),
      number(take_number(net, config_of(wanted))),
      queues(net.owner.shared, *net.fabric, number, config_of(wanted), pool.packets,
             net.wanted_msg_size) {
  if (net.owner.default_net_context.p_impl != &net) queues.engine().watch.only_over(*net.fabric);
  if (packets.payloads != nullptr) queues.gpu.enter(*packets.payloads);
  attr.net_max_sends = queues.engine().config.max_sends;
  attr.ibv_td_strategy = queues.engine().config.ibv_td_strategy;
  attr.use_reg_cache = net.fabric->caps().keeps_registrations;
  // What equals the default was not asked of this device.
  if (wanted.use_reg_cache != attr.use_reg_cache &&
      wanted.use_reg_cache != owner().member.defaults->use_reg_cache)
    base::log::warn("runtime",
                    "use_reg_cache of a device has no effect: a whole net context keeps "
                    "registrations or not, by the default of this attribute when it is opened "
                    "(LCI_ATTR_USE_REG_CACHE)");
  if (wanted.shm_enable != net.has_local && net.has_local)
    base::log::warn("runtime",
                    "shm_enable of a device has no effect: a whole net context has shared memory "
                    "or not, by the default of this attribute when it is opened "
                    "(LCI_ATTR_SHM_ENABLE)");
  attr.shm_enable = net.has_local;
  queues.host.rdv_by_immediate = owner().attr.rdv_protocol == attr_rdv_protocol_t::writeimm;
  queues.host.gpu_path = net.attr.gpu_path;
  base::undo made([this]() noexcept {
    owner().member.made->endpoints -= static_cast<int>(endpoints.size());
    free_endpoints();
  });
  if (attr.alloc_default_endpoint)
    default_endpoint = endpoint_t(base::make_live<endpoint_impl_t>(*this));
  if (attr.alloc_progress_endpoint)
    progress_endpoint = endpoint_t(base::make_live<endpoint_impl_t>(*this));
  base::make_room(owner().devices);
  {
    // Programs register their remote completions, allocate a device and then communicate: no rank
    // may receive messages before its device is ready.
    runtime::meeting all(owner());
    net.numbers.meet(all.boot(), all.work());
  }
  // A listed device is complete: a caller that frees the runtime after a failure above never meets
  // an unfinished one.
  owner().devices.push_back(this);
  // What fails on one rank alone and is tried again has the same number as on the others.
  attr.uid = owner().member.made->devices++;
  made.keep();
}

device_impl_t::~device_impl_t() {
  // Handlers that cannot run now are not waited for.
  drain([this] {
    const proto::handler_queue& handlers = queues.engine().handlers;
    return queues.engine().is_quiet_but_for_handlers() && queues.engine().is_network_drained() &&
           (handlers.size() == 0 || handlers.is_out_of_reach() || handlers.is_starved());
  });
  abandon_receives();
  free_endpoints();
  queues.engine().forget_backlogs();
  forget(owner().devices, this);
  context.numbers.give_back(number);
}

void device_impl_t::free_endpoints() noexcept {
  while (!endpoints.empty()) base::free_live(endpoints.back(), "endpoint");
}

proto::raw_net& device_impl_t::raw() {
  std::call_once(raw_made_, [this] {
    raw_ = std::make_unique<proto::raw_net>(queues.engine());
    is_raw_made_.store(true, std::memory_order_release);  // edge device.raw: partner is is_raw()
  });
  return *raw_;
}

void device_impl_t::abandon_receives() noexcept {
  proto::receive* taken = nullptr;
  owner().core.rcomps.for_each_engine([&](proto::match_target& one) {
    taken = proto::matcher::of(one).part_with(queues.host, taken);
  });
  const std::size_t left = proto::end_receives(taken, false);
  if (left != 0)
    base::log::info("runtime", "a device was freed with %zu receives that no message had matched",
                    left);
  // A receive that has met its message may be on its way over another device. What was given up is
  // not waited for again.
  if (has_given_up_) return;
  drain([this] {
    return queues.is_drained_but_for_handlers() && queues.engine().is_network_drained();
  });
}

void device_impl_t::drain(const std::function<bool()>& is_over) noexcept {
  constexpr auto PATIENCE = std::chrono::seconds(5);
  // A rank that noticed the same failure as we did may send nothing more, although it lives. If
  // the last failure was long ago (LATELY), ranks are waited for as usual.
  constexpr auto PATIENCE_AFTER_DEATH = std::chrono::milliseconds(500);
  constexpr auto LATELY = 2 * PATIENCE;
  const auto start = std::chrono::steady_clock::now();
  auto quiet_since = start;
  bool is_death_known = false;
  base::spin_wait wait;
  progress_of_others others(*this);
  // A GPU that still copies for this device would come back to what has gone.
  while (!is_over() || queues.gpu.has_copies()) {
    try {
      if (queues.progress().is_done() || (queues.is_quiet() && others.progress())) {
        wait.reset();
        quiet_since = std::chrono::steady_clock::now();
      } else {
        wait();
      }
    } catch (const std::exception& problem) {
      if (!owner().is_let_go())
        base::log::warn("runtime", "while a device was being freed: %s", problem.what());
    } catch (...) {
      // A handler may throw anything.
      if (!owner().is_let_go())
        base::log::warn("runtime", "while a device was being freed: a handler threw an exception");
    }
    // What other ranks would have to do for it is not waited for; one round has ended what is known
    // to have ended.
    const bool has_copies = queues.gpu.has_copies();
    if (owner().is_let_go() && !owner().core.is_busy() && !has_copies) {
      has_given_up_ = true;
      return;
    }
    const auto now = std::chrono::steady_clock::now();
    if (!is_death_known && owner().core.peers.has_failed_lately(LATELY)) {
      is_death_known = true;
      quiet_since = now;
    }
    const bool is_late =
        now - start > PATIENCE || (is_death_known && now - quiet_since > PATIENCE_AFTER_DEATH);
    if (is_late && !has_copies) {
      has_given_up_ = true;
      const long long left = queues.engine().open.sum() + queues.host.open_receives.sum();
      base::log::warn("runtime", "a device was freed with %lld operations that did not complete",
                      left);
      return;
    }
  }
}

}  // namespace lci
