// A net context: the networks that reach all ranks, and the summary of them that is logged.
#include <unistd.h>

#include <algorithm>

#include "lci/attr.hpp"
#include "lci/base/log.hpp"
#include "lci/base/spin.hpp"
#include "lci/base/undo.hpp"
#include "lci/net/backend.hpp"
#include "lci/runtime/global.hpp"
#include "lci/runtime/meeting.hpp"
#include "lci/runtime/runtime.hpp"

namespace lci {

namespace {

std::string next_key(const char* of, runtime_impl_t& owner) {
  // Contexts, those of all runtimes together, are made in the same order on all ranks. The number
  // of one that was freed is not used again: others may have been made in the meantime.
  return std::string("lci.") + of + "." + std::to_string(owner.member.made->net_contexts);
}

}  // namespace

net_context_impl_t::net_context_impl_t(runtime_impl_t& runtime, const net_context_attr_t& wanted,
                                       std::vector<std::string> allowed)
    : owner(runtime),
      attr(wanted),
      wanted_msg_size(wanted.max_msg_size),
      inside_(owner.core.me, owner.core.n, [this] { say_once(); }),
      between_(owner.core.me, owner.core.n, [this] { say_once(); }),
      numbers(next_key("devices", owner)) {
  // Once the ranks have agreed, nothing may fail on one rank alone.
  base::make_room(owner.net_contexts);
  opening_ = std::make_unique<runtime::opening>(order_from(std::move(allowed)), inside_, between_);
}

// What fails below leaves a whole object behind, which its destructor ends.
net_context_impl_t::net_context_impl_t(runtime_impl_t& runtime, const net_context_attr_t& wanted)
    : net_context_impl_t(runtime, wanted, std::vector<std::string>()) {
  {
    runtime::meeting all(owner);
    runtime::open_all(*opening_, all.boot(), all.work());
  }
  finish();
}

runtime::network_order net_context_impl_t::order_from(std::vector<std::string> allowed) const {
  runtime::network_order order;
  order.attr = attr;
  order.shm_enable = owner.member.defaults->shm_enable;
  order.arena = &owner.core.arena;
  order.regions = &owner.core.regions;
  order.peers = &owner.core.peers;
  order.use_reg_cache = owner.member.defaults->use_reg_cache;
  order.is_one_of_many = !owner.member.is_job;
  order.key = next_key("address", owner);
  order.allowed = std::move(allowed);
  return order;
}

void net_context_impl_t::finish() {
  runtime::opened_networks opened = opening_->result();
  opening_.reset();
  fabric = std::move(opened.fabric);
  has_local = opened.has_local;
  if (owner.member.is_job) base::spin_wait::set_oversubscribed(opened.is_crowded);
  summary_ = std::move(opened.summary);
  why_ = std::move(opened.why);
  const net::capabilities& can = fabric->caps();
  // The first context's words: a remote name is valid with all contexts. Its pieces: programs ask
  // once what is copied.
  if (!owner.core.seal.is_set()) owner.core.seal = proto::rmr_seal::of(opened.words);
  if (owner.core.max_send == proto::core::NO_NETWORK) owner.core.max_send = can.max_send;
  attr.backend = opened.backend;
  if (attr.backend == attr_backend_t::ofi)
    attr.ofi_provider_name = std::move(opened.names.provider);
  if (!opened.names.device.empty()) attr.device_name = std::move(opened.names.device);
  attr.max_inject_size = std::min(attr.max_inject_size, can.max_inject);
  attr.max_msg_size = std::min(attr.max_msg_size, can.max_rma);
  attr.support_putimm = can.write_with_immediate;
  owner.net_contexts.push_back(this);
  ++owner.member.made->net_contexts;
  if (owner.core.n == 1) say_once();
}

net_context_impl_t::~net_context_impl_t() {
  if (fabric == nullptr) return;  // it was never finished
  owner.core.rcomps.for_each_engine([this](proto::match_target& one) {
    proto::matcher::of(one).part_with(owner.shared.host, *fabric);
  });
  owner.shared.gpu.staging.unpin_views();
  fabric->leave();
}

bool net_context_impl_t::may_use_putimm() const noexcept {
  for (int r = 0; r < owner.core.n; ++r)
    if (fabric->caps_of(r).write_with_immediate) return true;
  return false;
}

// For users who want to know which network carries messages: logged at the first of them, so that
// it follows what was logged during set-up. A rank that is alone has no first contact, and logs it
// at the end of set-up.
void net_context_impl_t::say_once() noexcept {
  std::call_once(said_, [this] {
    char host[256] = "";
    gethostname(host, sizeof(host) - 1);
    if (owner.member.is_job)
      base::log::info("runtime", "rank %d of %d, host %s, %s", owner.core.me, owner.core.n, host,
                      summary_.c_str());
    else
      base::log::info("runtime", "a connection, host %s, %s", host, summary_.c_str());
  });
}

}  // namespace lci
