#include "backends/ibv/select.hpp"

#include <cerrno>
#include <cstring>

#include "backends/ibv/fabric.hpp"
#include "lci/errors.hpp"

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

// The fastest that can be used, of equals the first; null: none. Whatever else could be used learns
// why it is not.
port_facts* choose(std::vector<port_facts>& all, std::string& why) {
  port_facts* best = nullptr;
  for (port_facts& one : all)
    if (one.why_not.empty() && (best == nullptr || rate_of(one.state) > rate_of(best->state)))
      best = &one;
  if (best == nullptr) return nullptr;
  std::size_t rivals = 0;
  for (port_facts& one : all) {
    if (&one == best || !one.why_not.empty()) continue;
    const bool is_slower = rate_of(one.state) < rate_of(best->state);
    one.why_not = std::string(is_slower ? "slower than " : "no faster than ") + best->name;
    ++rivals;
  }
  why = rivals == 0 ? "the only one that can be used" : "the fastest";
  return best;
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
  std::vector<port_facts> all = survey(wishes_of(config));
  const port_facts* const best = choose(all, why);
  for (const port_facts& one : all)
    out.push_back({one.name, describe(one), &one == best, &one == best ? why : one.why_not});
  return out;
}

}  // namespace

const net::provider PROVIDER{"ibv", attr_backend_t::ibv, &probe, &open, &report};

port_wishes wishes_of(const net::fabric_config& config) {
  return {config.device_name, config.ibv_gid_index, config.ibv_wants_gid};
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
    port_facts* const best = choose(all, out.why);
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
