// The text behind lci_info, and behind whoever asks from a program.
#include "lci/info.hpp"

#include <algorithm>

#include "lci/boot/choose.hpp"
#include "lci/mem/memory_domain.hpp"
#include "lci/net/provider.hpp"
#include "lci/runtime/defaults.hpp"
#include "lci/runtime/net_wishes.hpp"
#include "lci/version.hpp"

// Written by the build: its cache, one "NAME=VALUE" a line.
#if __has_include("lci/build_options.inc")
#include "lci/build_options.inc"
#else
#define LCI_BUILD_OPTIONS ""
#endif

namespace lci {

namespace {

std::string padded(std::string text, std::size_t width) {
  text.resize(std::max(text.size() + 1, width), ' ');
  return text;
}

std::string line(const std::string& name, const std::string& value) {
  return "  " + padded(name, 12) + value + "\n";
}

std::string verdict(const std::string& reason) { return reason.empty() ? "usable" : reason; }

// A line for each card, and one for whether it would be used.
std::string cards_of(const net::provider& network, const net::fabric_config& wishes) {
  std::string text;
  if (network.report == nullptr) return text;
  for (const net::card_report& card : network.report(wishes)) {
    text += "  " + line(card.name, card.what);
    text += "  " + line("", (card.is_chosen ? "chosen: " : "not chosen: ") + card.why);
  }
  return text;
}

}  // namespace

std::string get_info(bool verbose) {
  std::string text = "lci " LCI_VERSION_STRING "\n";
  text += line("full", LCI_VERSION_FULL);
  text += line("built", LCI_BUILD_TIMESTAMP);
  const global_attr_t attr = runtime::read_defaults();
  text += "backends\n";
  for (const net::provider& p : net::providers()) {
    text += line(std::string(p.name), verdict(p.probe()));
    text += cards_of(p, runtime::wishes_of(attr, 0));
  }
  text += "bootstrap, in the order they are tried\n";
  for (const boot::choice& c : boot::list_bootstraps()) text += line(c.name, verdict(c.reason));
  text += "accelerators\n";
  for (const mem::memory_domain& domain : mem::memory_domains()) {
    const std::string why_not = domain.probe();
    text += line(std::string(domain.name), verdict(why_not));
    if (!why_not.empty() || domain.report == nullptr) continue;
    for (const mem::device_report& device : domain.report()) {
      text += "  " + line(device.name, device.what);
      for (const mem::way_report& way : device.ways)
        text += "      " + padded(way.name, 40) + verdict(way.why_not) + "\n";
    }
  }
  if (!verbose) return text;
  text += "attributes: value, and where it comes from\n";
  for (const runtime::attribute_row& row : runtime::describe(attr))
    text += "  " + padded(row.name, 30) +
            padded(row.value_text.empty() ? "\"\"" : row.value_text, 14) + row.source + "\n";
  text += "build options\n" LCI_BUILD_OPTIONS;
  return text;
}

}  // namespace lci
