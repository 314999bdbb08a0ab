// Which card, port and GID are used here, and why; or the sentence that says why none is. Callers:
// providers.cpp; fabric; lci_info. Threads: any.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "backends/ibv/handles.hpp"
#include "backends/ibv/survey.hpp"
#include "lci/net/provider.hpp"
#include "lci/net/topology.hpp"

namespace lci::ibv {

extern const net::provider PROVIDER;

// A port with its device open.
struct chosen_port : port_facts {
  context_handle context;
  std::string why;  // it, and not another one
};

// What a program wishes.
port_wishes wishes_of(const net::fabric_config& config);

// From where a process sees the cards.
struct viewpoint {
  net::place cores;
  std::optional<net::place> gpu;  // that the program has chosen
};

// The one that is used; null: none can be. Whatever else could be learns why it is not; `why` says
// why this one is. machine: null where there is no choice.
port_facts* choose(std::vector<port_facts>& all, const net::topology* machine,
                   const viewpoint& here, int local_rank, std::string& why);

// Opens the best active port. Throws backend_error with the reason for each that was left out.
chosen_port open_best_port(const port_wishes& wishes);

}  // namespace lci::ibv
