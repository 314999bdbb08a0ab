#include "backends/ibv/select.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "backends/ibv/wire.hpp"
#include "lci/base/env.hpp"
#include "lci/errors.hpp"
#include "lci/mem/memory_domain.hpp"

namespace lci::ibv {
namespace {

// As seen from this process. Where there is no choice the machine is not looked at.
selection choose_here(std::vector<port_facts>& all, const port_settings& settings) {
  const auto usable = std::count_if(all.begin(), all.end(),
                                    [](const port_facts& one) { return one.why_not.empty(); });
  const net::topology* const machine = usable > 1 ? &this_machine() : nullptr;
  viewpoint here;
  if (machine != nullptr) {
    here.cores = machine->of_process();
    const std::string gpu = mem::find_chosen_device();
    if (!gpu.empty()) here.gpu = machine->of_pci(gpu);
  }
  return choose(all, machine, here, settings);
}

// Empty when it could not be opened; then the facts say why.
context_handle open_device(port_facts& port) {
  context_handle context;
  port.why_not = "the device was removed";
  for (ibv_device* device : device_list()) {
    if (port.device != device->name) continue;
    context.reset(library().open_device(device));
    port.why_not =
        context ? "" : std::string("it cannot be opened again (") + std::strerror(errno) + ")";
  }
  return context;
}

// The ports of a choice, open. Those that cannot be opened learn why and are not among them.
std::vector<chosen_port> open_all(const selection& wanted) {
  std::vector<chosen_port> out;
  for (std::size_t i = 0; i < wanted.ports.size(); ++i) {
    chosen_port one;
    one.context = open_device(*wanted.ports[i]);
    if (!one.context) continue;
    static_cast<port_facts&>(one) = *wanted.ports[i];
    one.why = wanted.why[i];
    out.push_back(std::move(one));
  }
  return out;
}

}  // namespace

const net::topology& this_machine() {
  static const net::topology machine;
  return machine;
}

std::string probe() {
  std::string why_not;
  if (find_library(why_not) == nullptr) return why_not;
  try {
    open_ports({});
  } catch (const std::exception& problem) {
    return problem.what();
  }
  return {};
}

std::vector<net::card_report> report(const net::fabric_config& config) {
  std::vector<net::card_report> out;
  std::string why_not;
  if (find_library(why_not) == nullptr) return out;
  const port_settings settings = settings_of(config);
  std::vector<port_facts> all = survey(settings);
  selection chosen;
  std::string refusal;  // of the wish itself
  try {
    chosen = choose_here(all, settings);
  } catch (const backend_error& problem) {
    refusal = problem.what();
  }
  for (port_facts& one : all) {
    if (one.why_not.empty()) one.why_not = refusal;
    out.push_back({one.name, describe(one), false, one.why_not, one.pci});
  }
  for (std::size_t i = 0; i < chosen.ports.size(); ++i) {
    net::card_report& line = out[static_cast<std::size_t>(chosen.ports[i] - all.data())];
    line.is_chosen = true;
    line.why = chosen.why[i];
  }
  return out;
}

port_settings settings_of(const net::fabric_config& config) {
  constexpr const char* COUNT = "LCI_IBV_RAILS";
  std::size_t rails = 1;
  if (const auto text = base::env::find(COUNT))
    rails = base::env::same_word(*text, "auto")
                ? 0
                : base::env::parse_unsigned(COUNT, *text, 1, MAX_RAILS);
  return {config.device_name, config.ibv_gid_index, config.ibv_wants_gid, config.local_rank, rails};
}

void add_best(selection& to, std::vector<port_facts>& all, const net::topology* machine,
              const viewpoint& here, const port_settings& settings, std::size_t count,
              const std::function<bool(const port_facts&)>& is_meant) {
  std::vector<port_facts*> usable;
  std::vector<net::candidate> table;
  for (port_facts& one : all) {
    const bool is_taken = std::find(to.ports.begin(), to.ports.end(), &one) != to.ports.end();
    if (is_taken || !one.why_not.empty() || !is_meant(one)) continue;
    net::candidate row{one.name, rate_of(one.state), one.network};
    if (machine != nullptr && !one.pci.empty()) {
      const net::place where = machine->of_pci(one.pci);
      row.to_cores = net::nearness_of(where, here.cores);
      if (here.gpu) row.to_gpu = net::nearness_of(where, *here.gpu);
    }
    usable.push_back(&one);
    table.push_back(std::move(row));
  }
  const net::choice answer = net::choose(table, {here.gpu.has_value(), settings.local_rank});
  for (std::size_t i = 0; i < usable.size(); ++i) usable[i]->why_not = answer.why_not[i];
  for (std::size_t i = 0; i < std::min(count, answer.cards.size()); ++i) {
    port_facts& one = *usable[answer.cards[i]];
    one.why_not.clear();
    to.why.push_back(i == 0 ? answer.why : "beside " + to.ports[0]->name + ", as good as that");
    to.ports.push_back(&one);
  }
}

selection choose(std::vector<port_facts>& all, const net::topology* machine, const viewpoint& here,
                 const port_settings& settings) {
  selection out;
  if (settings.rails == 1 && settings.device_name.find(',') == std::string::npos)
    add_best(out, all, machine, here, settings, 1, [](const port_facts&) { return true; });
  else
    choose_several(out, all, machine, here, settings);
  return out;
}

std::vector<chosen_port> open_ports(const port_settings& settings) {
  std::string reasons;
  if (find_library(reasons) == nullptr) throw backend_error("ibv: " + reasons);
  std::vector<port_facts> left = survey(settings);
  if (left.empty()) throw backend_error("ibv: there is no verbs device on this machine");
  // What cannot be opened is left out, and while nothing can, the rest is asked again.
  for (;;) {
    std::vector<port_facts> all = left;
    const selection wanted = choose_here(all, settings);
    if (wanted.ports.empty()) break;
    std::vector<chosen_port> out = open_all(wanted);
    if (!out.empty()) return out;
    for (const port_facts* one : wanted.ports)
      left[static_cast<std::size_t>(one - all.data())].why_not = one->why_not;
  }
  for (const port_facts& one : left) reasons += "; " + one.name + ": " + one.why_not;
  throw backend_error("ibv: no port can be used" + reasons);
}

}  // namespace lci::ibv
