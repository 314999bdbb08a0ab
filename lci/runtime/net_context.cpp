// Opening a network: which provider, and how its addresses reach the other ranks.
#include <algorithm>

#include "lci/attr.hpp"
#include "lci/base/log.hpp"
#include "lci/errors.hpp"
#include "lci/net/provider.hpp"
#include "lci/proto/wire.hpp"
#include "lci/runtime/attribute_text.hpp"
#include "lci/runtime/global.hpp"
#include "lci/runtime/introduction.hpp"
#include "lci/runtime/net_wishes.hpp"
#include "lci/runtime/runtime.hpp"

namespace lci {

namespace {

// The first provider that is wanted and usable. The error lists every one with its reason.
const net::provider& choose_provider(attr_backend_t wanted) {
  std::string reasons;
  for (const net::provider& p : net::providers()) {
    if (wanted != attr_backend_t::none && wanted != p.backend) {
      reasons += "\n  " + std::string(p.name) + ": not the backend that was asked for";
      continue;
    }
    const std::string reason = p.probe();
    if (reason.empty()) return p;
    reasons += "\n  " + std::string(p.name) + ": " + reason;
  }
  const std::string asked =
      wanted == attr_backend_t::none ? "" : " " + runtime::text_of("backend", wanted);
  throw backend_error("backend" + asked + " is not usable:" + reasons);
}

std::string next_key(runtime_impl_t& owner) {
  // Runtimes and contexts are made in the same order on all ranks, so their numbers agree.
  return "lci.address." + std::to_string(runtime::global().runtimes_ever) + "." +
         std::to_string(owner.net_contexts.size());
}

}  // namespace

net_context_impl_t::net_context_impl_t(runtime_impl_t& runtime, const net_context_attr_t& wanted)
    : owner(runtime), attr(wanted), key_(next_key(runtime)) {
  const net::provider& provider = choose_provider(wanted.backend);
  net::fabric_config config = lci::runtime::wishes_of(attr, owner.core.me);
  config.book = this;
  config.arena = &owner.core.arena;
  config.regions = &owner.core.regions;
  config.use_reg_cache = g_default_attr.use_reg_cache;
  config.gpu_rules = mem::ladder_rules::from_environment(attr.use_dmabuf);
  fabric = provider.open(config);
  const net::capabilities& can = fabric->caps();
  attr.backend = provider.backend;
  attr.max_inject_size = std::min(attr.max_inject_size, can.max_inject);
  attr.max_msg_size = std::min(attr.max_msg_size, can.max_rma);
  attr.support_putimm = can.write_with_immediate;
  const std::lock_guard lock(runtime::global().bootstrap_lock);
  boot::bootstrap& boot = *runtime::global().bootstrap;
  boot.put(key_, runtime::introduce(proto::wire::VERSION, provider.name, fabric->address()));
  boot.fence();
  // Read now: at first contact any thread may ask, and the bootstrap serves one thread only.
  for (int r = 0; r < owner.core.n; ++r)
    addresses_.push_back(
        runtime::address_in(boot.get(r, key_), r, proto::wire::VERSION, provider.name));
  owner.net_contexts.push_back(this);
  base::log::info("runtime", "rank %d of %d uses backend %s", owner.core.me, owner.core.n,
                  std::string(provider.name).c_str());
}

net_context_impl_t::~net_context_impl_t() {
  owner.core.staging.unpin_views();
  fabric->leave();
}

int net_context_impl_t::rank() const noexcept { return owner.core.me; }
int net_context_impl_t::size() const noexcept { return owner.core.n; }

std::string net_context_impl_t::lookup(int peer) {
  return addresses_[static_cast<std::size_t>(peer)];
}

}  // namespace lci
