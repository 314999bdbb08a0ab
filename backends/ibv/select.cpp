#include "backends/ibv/select.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "backends/ibv/fabric.hpp"
#include "lci/errors.hpp"
#include "lci/mem/memory_domain.hpp"

namespace lci::ibv {
namespace {

std::string probe() {
  std::string why_not;
  if (find_library(why_not) == nullptr) return why_not;
  try {
    open_best_port({});
  } catch (const std::exception& problem) {
    return problem.what();
  }
  return {};
}

std::unique_ptr<net::fabric> open(const net::fabric_config& config) {
  return std::make_unique<fabric>(config);
}

// As seen from this process. Where there is no choice the machine is not looked at, which takes
// milliseconds.
port_facts* choose_here(std::vector<port_facts>& all, const port_wishes& wishes, std::string& why) {
  const auto usable = std::count_if(all.begin(), all.end(),
                                    [](const port_facts& one) { return one.why_not.empty(); });
  std::optional<net::topology> machine;
  viewpoint here;
  if (usable > 1) {
    machine.emplace();
    here.cores = machine->of_process();
    const std::string gpu = mem::find_chosen_device();
    if (!gpu.empty()) here.gpu = machine->of_pci(gpu);
  }
  return choose(all, machine ? &*machine : nullptr, here, wishes.local_rank, why);
}

// Empty when it could not be opened; then the facts say why.
context_handle open_device(port_facts& port) {
  context_handle context;
  port.why_not = "the device is gone";
  for (ibv_device* device : device_list()) {
    if (port.device != device->name) continue;
    context.reset(library().open_device(device));
    port.why_not =
        context ? "" : std::string("it cannot be opened again (") + std::strerror(errno) + ")";
  }
  return context;
}

std::vector<net::card_report> report(const net::fabric_config& config) {
  std::vector<net::card_report> out;
  std::string why;
  if (find_library(why) == nullptr) return out;
  const port_wishes wishes = wishes_of(config);
  std::vector<port_facts> all = survey(wishes);
  const port_facts* const best = choose_here(all, wishes, why);
  for (const port_facts& one : all)
    out.push_back({one.name, describe(one), &one == best, &one == best ? why : one.why_not});
  return out;
}

}  // namespace

const net::provider PROVIDER{"ibv", attr_backend_t::ibv, &probe, &open, &report};

port_wishes wishes_of(const net::fabric_config& config) {
  return {config.device_name, config.ibv_gid_index, config.ibv_wants_gid, config.local_rank};
}

port_facts* choose(std::vector<port_facts>& all, const net::topology* machine,
                   const viewpoint& here, int local_rank, std::string& why) {
  std::vector<port_facts*> usable;
  std::vector<net::candidate> table;
  for (port_facts& one : all) {
    if (!one.why_not.empty()) continue;
    net::candidate row{one.name, rate_of(one.state), one.network};
    if (machine != nullptr && !one.pci.empty()) {
      const net::place where = machine->of_pci(one.pci);
      row.to_cores = net::nearness_of(where, here.cores);
      if (here.gpu) row.to_gpu = net::nearness_of(where, *here.gpu);
    }
    usable.push_back(&one);
    table.push_back(std::move(row));
  }
  const net::choice answer = net::choose(table, {here.gpu.has_value(), local_rank});
  for (std::size_t i = 0; i < usable.size(); ++i) usable[i]->why_not = answer.why_not[i];
  why = answer.why;
  return answer.cards.empty() ? nullptr : usable[answer.cards[0]];
}

chosen_port open_best_port(const port_wishes& wishes) {
  std::string reasons;
  if (find_library(reasons) == nullptr) throw backend_error("ibv: " + reasons);
  std::vector<port_facts> left = survey(wishes);
  if (left.empty()) throw backend_error("ibv: there is no verbs device on this machine");
  // One that cannot be opened is left out, and the rest is asked again.
  for (;;) {
    chosen_port out;
    std::vector<port_facts> all = left;
    port_facts* const best = choose_here(all, wishes, out.why);
    if (best == nullptr) break;
    out.context = open_device(*best);
    if (out.context) {
      static_cast<port_facts&>(out) = *best;
      return out;
    }
    left[static_cast<std::size_t>(best - all.data())].why_not = best->why_not;
  }
  for (const port_facts& one : left) reasons += "; " + one.name + ": " + one.why_not;
  throw backend_error("ibv: no port can be used" + reasons);
}

}  // namespace lci::ibv
