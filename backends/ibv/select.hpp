// Which card, port and GID are used here, and why; or the sentence that says why none is. Callers:
// provider; fabric; lci_info. Threads: any.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "backends/ibv/handles.hpp"
#include "backends/ibv/survey.hpp"
#include "lci/net/provider.hpp"
#include "lci/net/topology.hpp"

namespace lci::ibv {

extern const net::provider PROVIDER;  // provider.cpp
// As it says.
std::string probe();
std::vector<net::card_report> report(const net::fabric_config& config);

// A port with its device open.
struct chosen_port : port_facts {
  context_handle context;
  std::string why;  // it, and not another one
};

// Where everything sits. Read once: that takes tens of milliseconds, and a machine stays what it
// is.
const net::topology& this_machine();

// What a program asks for.
port_settings settings_of(const net::fabric_config& config);

// From where a process sees the cards.
struct viewpoint {
  net::place cores;
  std::optional<net::place> gpu;  // that the program has chosen
};

// The cards that are used, usually one; the first is for everything that is ordered.
struct selection {
  std::vector<port_facts*> ports;
  std::vector<std::string> why;  // by port
};

// Whatever could be used and is not learns why. machine: null where there is no choice.
selection choose(std::vector<port_facts>& all, const net::topology* machine, const viewpoint& here,
                 const port_settings& settings);

// Up to `count` of those that `is_meant` and that are not taken, the best first.
void add_best(selection& to, std::vector<port_facts>& all, const net::topology* machine,
              const viewpoint& here, const port_settings& settings, std::size_t count,
              const std::function<bool(const port_facts&)>& is_meant);
// The part of choose() for more than one card: experimental/ibv/multi_rail. Throws
// backend_error where that is not built.
void choose_several(selection& to, std::vector<port_facts>& all, const net::topology* machine,
                    const viewpoint& here, const port_settings& settings);

// Opens them: at least one. Throws backend_error with the reason for each that was left out.
std::vector<chosen_port> open_ports(const port_settings& settings);

}  // namespace lci::ibv
