// What lci_info prints, and what a program gets that asks for the same.
#include "lci/info.hpp"

#include <unistd.h>

#include <algorithm>
#include <climits>

#include "lci/boot/choose.hpp"
#include "lci/mem/memory_domain.hpp"
#include "lci/net/gpu_tiers.hpp"
#include "lci/net/provider.hpp"
#include "lci/net/topology.hpp"
#include "lci/runtime/defaults.hpp"
#include "lci/runtime/net_settings.hpp"
#include "lci/version.hpp"

// Written by the build: why it has no experimental parts, and its cache, one "NAME=VALUE" a line.
#if __has_include("lci/build_options.inc")
#include "lci/build_options.inc"
#else
#define LCI_BUILD_OPTIONS ""
#define LCI_WHY_NO_EXPERIMENTAL ""
#endif

namespace lci {

namespace {

// ---- data ----

struct placed_gpu {
  std::string name;
  net::place where;
};

std::string host_name() {
  char text[HOST_NAME_MAX + 1] = "";
  gethostname(text, sizeof(text) - 1);
  return text;
}

std::vector<info_accelerator_t> accelerators_of(const net::topology& machine,
                                                std::vector<placed_gpu>& placed) {
  std::vector<info_accelerator_t> out;
  for (const mem::memory_domain& domain : mem::memory_domains()) {
    info_accelerator_t one;
    one.name = domain.name;
    one.why_not = domain.probe();
    if (one.why_not.empty() && domain.report != nullptr) {
      for (const mem::device_report& device : domain.report()) {
        info_gpu_t gpu;
        gpu.name = device.name;
        gpu.what = device.what;
        if (!device.pci.empty()) {
          placed.push_back({device.name, machine.of_pci(device.pci)});
          gpu.near_cores = placed.back().where.cpus;
        }
        for (const mem::way_report& way : device.ways) gpu.ways.push_back({way.name, way.why_not});
        one.gpus.push_back(std::move(gpu));
      }
    }
    out.push_back(std::move(one));
  }
  return out;
}

// The GPUs with the shortest path to the card.
std::vector<std::string> nearest(const net::place& card, const std::vector<placed_gpu>& gpus) {
  std::vector<std::string> out;
  net::nearness best = net::nearness::far;
  for (const placed_gpu& gpu : gpus) {
    const net::nearness now = net::nearness_of(card, gpu.where);
    if (now < best) out.clear();
    best = std::min(best, now);
    if (now == best) out.push_back(gpu.name);
  }
  return out;
}

std::vector<info_backend_t> backends_of(const net::fabric_config& wanted,
                                        const net::topology& machine,
                                        const std::vector<placed_gpu>& gpus) {
  std::vector<info_backend_t> out;
  for (const net::provider& p : net::providers()) {
    info_backend_t one;
    one.name = p.name;
    one.why_not = p.probe();
    if (p.place != nullptr) one.place = p.place();
    if (p.report != nullptr) {
      for (const net::card_report& found : p.report(wanted)) {
        info_card_t card;
        card.name = found.name;
        card.what = found.what;
        card.is_chosen = found.is_chosen;
        card.why = found.why;
        if (!found.pci.empty()) {
          const net::place where = machine.of_pci(found.pci);
          card.near_cores = where.cpus;
          card.near_gpus = nearest(where, gpus);
        }
        one.cards.push_back(std::move(card));
      }
    }
    out.push_back(std::move(one));
  }
  return out;
}

// The attribute gpu_proxy is off by default.
constexpr bool HAS_PROXY = false;

std::vector<info_tier_t> tiers_of(const net::fabric_config& wanted) {
  std::vector<info_tier_t> out;
  for (const net::tier_report& found : net::list_gpu_tiers(net::providers(), wanted, HAS_PROXY)) {
    info_tier_t one;
    one.name = net::name_of(found.tier);
    one.why_not = found.why_not;
    for (const net::tier_probe& probe : found.probes)
      one.probes.push_back({probe.name, probe.why_not});
    out.push_back(std::move(one));
  }
  return out;
}

// Other libraries that cmake_modules/LciDependencies.cmake looked for; each network says for itself
// why it was not built.
std::vector<info_choice_t> libraries_of_build() {
  return {{"libhwloc", LCI_HAVE_HWLOC ? "" : "not built: " LCI_WHY_NO_HWLOC},
          {"libsodium", LCI_HAVE_SODIUM ? "" : "not built: " LCI_WHY_NO_SODIUM}};
}

// The parts in experimental/. Whether they can be used on this machine is shown with GPUs and
// cards.
std::vector<info_choice_t> experimental_parts() {
  std::vector<info_choice_t> out;
  for (const char* name : {"gdrcopy", "multi_rail", "data_direct", "extended_cq", "gpu_tiers"})
    out.push_back({name, LCI_WHY_NO_EXPERIMENTAL});
  return out;
}

// ---- text ----

std::string padded(std::string text, std::size_t width) {
  text.resize(std::max(text.size() + 1, width), ' ');
  return text;
}

std::string line(const std::string& name, const std::string& value) {
  return "  " + padded(name, 12) + value + "\n";
}

std::string line(const info_choice_t& one) {
  return line(one.name, one.why_not.empty() ? "usable" : one.why_not);
}

// "0-3,8"
std::string text_of(const std::vector<int>& numbers) {
  std::string out;
  for (std::size_t i = 0; i < numbers.size();) {
    std::size_t last = i;
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
    out += (out.empty() ? "" : ",") + std::to_string(numbers[i]);
    if (last != i) out += "-" + std::to_string(numbers[last]);
    i = last + 1;
  }
  return out;
}

// A line for each card, one for whether it would be used, one for what is near.
std::string text_of(const info_card_t& card) {
  std::string text = "  " + line(card.name, card.what);
  text += "  " + line("", (card.is_chosen ? "chosen: " : "not chosen: ") + card.why);
  std::string near_by = card.near_cores.empty() ? "" : "cores " + text_of(card.near_cores);
  for (const std::string& gpu : card.near_gpus) near_by += (near_by.empty() ? "" : ", ") + gpu;
  if (!near_by.empty()) text += "  " + line("", "near: " + near_by);
  return text;
}

// For names that are sentences.
std::string long_line(const char* indent, const info_choice_t& one) {
  return indent + padded(one.name, 40) + (one.why_not.empty() ? "usable" : one.why_not) + "\n";
}

std::string text_of(const info_gpu_t& gpu) {
  std::string text = "  " + line(gpu.name, gpu.what);
  if (!gpu.near_cores.empty()) text += "  " + line("", "near: cores " + text_of(gpu.near_cores));
  for (const info_choice_t& way : gpu.ways) text += long_line("      ", way);
  return text;
}

}  // namespace

info_t describe_machine() {
  info_t out;
  out.version = LCI_VERSION_STRING;
  out.full_version = LCI_VERSION_FULL;
  out.built = LCI_BUILD_TIMESTAMP;
  out.host = host_name();
  const global_attr_t attr = runtime::read_defaults();
  const net::topology machine;
  out.cores = machine.of_process().cpus;
  std::vector<placed_gpu> gpus;
  out.accelerators = accelerators_of(machine, gpus);
  const net::fabric_config wanted = runtime::settings_of(attr, 0);
  out.backends = backends_of(wanted, machine, gpus);
  out.gpu_tiers = tiers_of(wanted);
  out.libraries = libraries_of_build();
  out.experimental = experimental_parts();
  for (const boot::choice& c : boot::list_bootstraps())
    out.bootstraps.push_back({c.name, c.reason});
  for (const runtime::attribute_row& row : runtime::describe(attr))
    out.attributes.push_back({row.name, row.value_text, row.source});
  out.build_options = LCI_BUILD_OPTIONS;
  return out;
}

std::string get_info(bool verbose) {
  const info_t all = describe_machine();
  std::string text = "lci " + all.version + "\n";
  text += line("full", all.full_version);
  text += line("built", all.built);
  text += line("host", all.host + ", cores " + text_of(all.cores));
  text += "backends\n";
  for (const info_backend_t& backend : all.backends) {
    text += line(backend);
    if (!backend.place.empty()) text += line("", "with processes at " + backend.place);
    for (const info_card_t& card : backend.cards) text += text_of(card);
  }
  text += "bootstrap, in the order they are tried\n";
  for (const info_choice_t& one : all.bootstraps) text += line(one);
  text += "accelerators\n";
  for (const info_accelerator_t& one : all.accelerators) {
    text += line(one);
    for (const info_gpu_t& gpu : one.gpus) text += text_of(gpu);
  }
  text += "tiers of communication that a kernel starts, highest first\n";
  for (const info_tier_t& one : all.gpu_tiers) {
    text += long_line("  ", one);
    if (!verbose) continue;
    for (const info_choice_t& probe : one.probes) text += long_line("      ", probe);
  }
  text += "libraries\n";
  for (const info_choice_t& one : all.libraries) text += line(one);
  text += "experimental, never run on the hardware that it is for\n";
  for (const info_choice_t& one : all.experimental)
    text += line(one.name, one.why_not.empty() ? "built" : one.why_not);
  if (!verbose) return text;
  text += "attributes: value, and where it comes from\n";
  for (const info_attribute_t& row : all.attributes)
    text += "  " + padded(row.name, 30) + padded(row.value.empty() ? "\"\"" : row.value, 14) +
            row.source + "\n";
  text += "build options\n" + all.build_options;
  return text;
}

}  // namespace lci
