// lci_info [-v|--verbose|--json]: what this library is and what it can do on this machine.
#include <cstdio>
#include <exception>
#include <string_view>
#include <vector>

#include "lci/info.hpp"
#if LCI_HAVE_JSON
#include <nlohmann/json.hpp>
#endif

namespace {

constexpr const char* USAGE =
    "usage: lci_info [-v|--verbose|--json]\n"
    "Prints the version; every network backend with \"usable\" or the reason why not, and its "
    "NICs\n"
    "with the nearest cores and GPUs; the bootstraps; the accelerators; and the tiers of\n"
    "communication that a kernel starts. -v adds what was tried for each tier, all attributes and\n"
    "the build options. --json prints everything for programs.\n";

#if LCI_HAVE_JSON

using json = nlohmann::ordered_json;

json of(const lci::info_choice_t& one) {
  return {{"name", one.name}, {"usable", one.why_not.empty()}, {"why_not", one.why_not}};
}

json of(const lci::info_card_t& card) {
  return {{"name", card.name},
          {"what", card.what},
          {"chosen", card.is_chosen},
          {"why", card.why},
          {"near_cores", card.near_cores},
          {"near_gpus", card.near_gpus}};
}

json of(const lci::info_attribute_t& row) {
  return {{"name", row.name}, {"value", row.value}, {"source", row.source}};
}

json of(const lci::info_gpu_t& gpu);
json of(const lci::info_tier_t& one);
json of(const lci::info_backend_t& backend);
json of(const lci::info_accelerator_t& one);

template <class T>
json of(const std::vector<T>& all) {
  json out = json::array();
  for (const T& one : all) out.push_back(of(one));
  return out;
}

json of(const lci::info_backend_t& backend) {
  json out = of(static_cast<const lci::info_choice_t&>(backend));
  out["place"] = backend.place;
  out["cards"] = of(backend.cards);
  return out;
}

json of(const lci::info_gpu_t& gpu) {
  return {{"name", gpu.name},
          {"what", gpu.what},
          {"near_cores", gpu.near_cores},
          {"ways", of(gpu.ways)}};
}

json of(const lci::info_accelerator_t& one) {
  json out = of(static_cast<const lci::info_choice_t&>(one));
  out["gpus"] = of(one.gpus);
  return out;
}

json of(const lci::info_tier_t& one) {
  json out = of(static_cast<const lci::info_choice_t&>(one));
  out["probes"] = of(one.probes);
  return out;
}

int print_json() {
  const lci::info_t all = lci::describe_machine();
  const json out = {{"version", all.version},
                    {"full_version", all.full_version},
                    {"built", all.built},
                    {"host", all.host},
                    {"cores", all.cores},
                    {"backends", of(all.backends)},
                    {"bootstraps", of(all.bootstraps)},
                    {"accelerators", of(all.accelerators)},
                    {"gpu_tiers", of(all.gpu_tiers)},
                    {"libraries", of(all.libraries)},
                    {"experimental", of(all.experimental)},
                    {"attributes", of(all.attributes)},
                    {"build_options", all.build_options}};
  // Text that is not UTF-8, such as the name of a device, must not stop it.
  std::printf("%s\n", out.dump(2, ' ', false, json::error_handler_t::replace).c_str());
  return 0;
}

#else

int print_json() {
  std::fputs("lci_info: built without nlohmann-json, which --json needs (nlohmann-json3-dev)\n",
             stderr);
  return 1;
}

#endif

}  // namespace

int main(int argc, char** argv) {
  const std::string_view word = argc > 1 ? argv[1] : "";
  const bool verbose = word == "-v" || word == "--verbose";
  if (argc > 2 || (argc == 2 && !verbose && word != "--json")) {
    std::fputs(USAGE, stderr);
    return 1;
  }
  try {
    if (word == "--json") return print_json();
    std::fputs(lci::get_info(verbose).c_str(), stdout);
  } catch (const std::exception& problem) {
    std::fprintf(stderr, "lci_info: %s\n", problem.what());
    return 1;
  }
  return 0;
}
