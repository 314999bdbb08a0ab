#include "backends/ofi/fabric.hpp"

#include <algorithm>

#include "lci/base/log.hpp"
#include "lci/errors.hpp"

namespace lci::ofi {
namespace {

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

using net::connected::MAX_SEND;

// Of one operation over TCP. What is under way at once is in the sockets' buffers: where it is more
// than the caches of the cores hold, each byte comes from further away
// (docs/decisions/0054-pieces-over-tcp.md).
constexpr std::size_t TCP_PIECE = std::size_t{4} << 20;

net::capabilities capabilities_of(const candidate& chosen, std::size_t head,
                                  const net::fabric_config& config) {
  const fi_info& info = *chosen.info;
  net::capabilities caps;
  const std::size_t limit = info.tx_attr->inject_size, longest = info.ep_attr->max_msg_size;
  if (longest < MAX_SEND + head)
    throw backend_error("ofi: " + chosen.name() + " sends at most " + bytes_text(longest) +
                        " at once, " + bytes_text(MAX_SEND + head) + " are needed");
  // What is not injected after all, or goes to this rank itself, is copied into one packet.
  caps.max_inject =
      std::max(LEAST_INJECT,
               std::min({config.max_inject_wanted, limit > head ? limit - head : 0, MAX_SEND}));
  caps.max_send = MAX_SEND;
  caps.max_rma = std::min<std::size_t>(longest, std::size_t{1} << 40);
  if (goes_over_tcp(info)) caps.best_rma = TCP_PIECE;
  caps.write_with_immediate = has_write_data(info);
  caps.one_sided = makes_progress_alone(info);
  caps.device_memory = (info.caps & FI_HMEM) != 0;
  caps.outlives_stale_keys = false;
  caps.ordered = keeps_message_order(info);
  caps.orders_puts = keeps_write_order(info);
  return caps;
}

candidate choose_for(const net::fabric_config& config, std::string& why) {
  return choose(settings_of(net::connected::checked(config, "ofi")), why);
}

}  // namespace

fabric::fabric(const net::fabric_config& config)
    : config_(config),
      chosen_(choose_for(config, why_)),
      fabric_(open_fabric(chosen_)),
      handle_(open_domain(fabric_.get(), chosen_)),
      domain_{chosen_.info.get(), fabric_.get(), handle_.get(), chosen_.name(), chosen_.how},
      caps_(capabilities_of(chosen_, domain_.head(), config_)),
      connector_(domain_, *config_.book, *config_.arena),
      memory_(domain_, connector_.endpoint(), config_),
      keys_(config_.book->size()) {
  caps_.keeps_registrations = memory_.is_keeping();
  connector_.before_ready([this](int rank) { keys_.outdate(rank); });
  connector_.start(memory_);
  base::ticks_per_ms();  // measured here rather than in the first poll
  log::info("ofi", "%s, %s: %s", domain_.name.c_str(), why_.c_str(), describe(chosen_).c_str());
}

// Without leave() before, peers take this for a death, after what was sent to them.
fabric::~fabric() {
  if (has_left_) return;
  devices_.for_each([](event_queue& one) { one.leave(false); });
}

std::unique_ptr<event_queue> fabric::make_queue(int index, const net::device_config& wanted) {
  return std::make_unique<event_queue>(connector_, keys_, domain_, config_, memory_,
                                       connector_.requests(), index, wanted);
}

void fabric::leave() noexcept {
  if (has_left_.exchange(true, std::memory_order_relaxed)) return;
  leave_all();
}

}  // namespace lci::ofi
