// Which cards are used together: so many that are as good as the first, or a list.
#include <algorithm>
#include <string>
#include <string_view>

#include "backends/ibv/select.hpp"
#include "backends/ibv/wire.hpp"
#include "lci/base/env.hpp"

namespace lci::ibv {

void choose_several(selection& to, std::vector<port_facts>& all, const net::topology* machine,
                    const viewpoint& here, const port_settings& settings) {
  if (settings.device_name.find(',') == std::string::npos) {
    const std::size_t count = settings.rails == 0 ? MAX_RAILS : settings.rails;
    return add_best(to, all, machine, here, settings, count,
                    [](const port_facts&) { return true; });
  }
  // A list is the cards in its order. A device stands for its best port.
  base::env::for_each_entry(settings.device_name, ",", [&](std::string_view word) {
    if (to.ports.size() == MAX_RAILS) return;
    const std::size_t before = to.ports.size();
    add_best(to, all, machine, here, settings, 1,
             [&](const port_facts& one) { return is_named(word, one); });
    if (to.ports.size() > before) to.why.back() = "device_name lists it";
  });
  for (port_facts& one : all)
    if (one.why_not.empty() && std::find(to.ports.begin(), to.ports.end(), &one) == to.ports.end())
      one.why_not = "there are " + std::to_string(MAX_RAILS) + " before it in device_name";
}

}  // namespace lci::ibv
