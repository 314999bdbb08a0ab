// In place of the experimental parts of verbs where the build has none (LCI_EXPERIMENTAL).
#include "backends/ibv/data_direct.hpp"
#include "backends/ibv/extended_queue.hpp"
#include "backends/ibv/gpu_tiers.hpp"
#include "backends/ibv/multi_rail.hpp"
#include "backends/ibv/select.hpp"
#include "lci/base/experimental.hpp"
#include "lci/errors.hpp"

namespace lci::ibv {

std::string data_direct::why_not_built() { return base::not_built("Data Direct"); }

data_direct::function data_direct::find(ibv_device*, std::string& why_not) {
  why_not = why_not_built();
  return nullptr;
}

extended_queue make_extended_queue(const chosen_port&, std::uint32_t) {
  throw backend_error("ibv: LCI_IBV_EXTENDED_CQ asks for an extended completion queue; " +
                      base::not_built("this kind"));
}

void choose_several(selection& to, std::vector<port_facts>& all, const net::topology* machine,
                    const viewpoint& here, const port_settings& settings) {
  // Several if there are: one will do.
  const bool is_list = settings.device_name.find(',') != std::string::npos;
  if (!is_list && settings.rails == 0)
    return add_best(to, all, machine, here, settings, 1, [](const port_facts&) { return true; });
  const std::string who = is_list ? "device_name lists" : "LCI_IBV_RAILS asks for";
  throw backend_error("ibv: " + who + " several cards; " +
                      base::not_built("multi-rail, several cards together,"));
}

std::vector<net::tier_report> gpu_tiers::probe(const net::fabric_config&) {
  std::vector<net::tier_report> out;
  for (const net::gpu_tier tier : net::GPU_TIERS)
    if (tier != net::gpu_tier::proxy) out.push_back({tier, base::NOT_BUILT});
  return out;
}

std::unique_ptr<tier_queue> gpu_tiers::open(const chosen_port&, ibv_pd*,
                                            const tier_options& options) {
  throw backend_error("ibv: " + base::not_built("tier " + std::string(net::name_of(options.tier))));
}

std::unique_ptr<tier_queue> gpu_tiers::open_target(const chosen_port&, ibv_pd*) {
  throw backend_error("ibv: " + base::not_built("a queue pair for kernels of a peer"));
}

std::unique_ptr<rail_queues> make_rail_queues(event_queue&) { return nullptr; }

std::unique_ptr<rail_regions> make_rail_regions(const cards&, regions&) { return nullptr; }

}  // namespace lci::ibv
