#include "backends/ofi/select.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>
#include <tuple>

#include "backends/ofi/nic_info.hpp"
#include "backends/ofi/wire.hpp"
#include "lci/base/env.hpp"
#include "lci/base/kept_signals.hpp"
#include "lci/errors.hpp"
#include "lci/mem/memory_domain.hpp"

namespace lci::ofi {
namespace {

constexpr std::uint64_t ORDER = FI_ORDER_SAS | FI_ORDER_SAW | FI_ORDER_WAW;
constexpr int MR_MODES =
    FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_ENDPOINT | FI_MR_HMEM;

// What is asked for, the best first: a domain is taken as the first question finds it that it
// answers.
struct question {
  std::uint64_t order;
  std::uint64_t completion;
  bool has_inject;
};
constexpr std::array<question, 7> QUESTIONS{{{ORDER, FI_DELIVERY_COMPLETE, true},
                                             {ORDER, FI_DELIVERY_COMPLETE, false},
                                             {FI_ORDER_SAS, FI_DELIVERY_COMPLETE, false},
                                             {0, FI_DELIVERY_COMPLETE, false},
                                             {ORDER, FI_TRANSMIT_COMPLETE, false},
                                             {FI_ORDER_SAS, 0, false},
                                             {0, 0, false}}};

info_handle hints_for(const question& ask, const provider_settings& wanted,
                      bool with_device_memory) {
  info_handle out(library().dupinfo(nullptr));
  if (!out) throw backend_error("ofi: fi_allocinfo: no memory");
  out->caps = FI_MSG | FI_RMA | (with_device_memory ? FI_HMEM : 0);
  out->mode = FI_CONTEXT | FI_CONTEXT2;
  out->ep_attr->type = FI_EP_RDM;
  out->domain_attr->mr_mode = MR_MODES & (with_device_memory ? ~0 : ~FI_MR_HMEM);
  out->domain_attr->threading = FI_THREAD_SAFE;
  out->domain_attr->resource_mgmt = FI_RM_ENABLED;
  out->tx_attr->msg_order = ask.order;
  out->tx_attr->op_flags = ask.completion;
  if (ask.has_inject)
    out->tx_attr->inject_size = std::max(wanted.inject, LEAST_INJECT) + sizeof(std::uint64_t);
  // Freed with the rest.
  if (!wanted.provider.empty()) out->fabric_attr->prov_name = strdup(wanted.provider.c_str());
  return out;
}

bool is_same_place(const fi_info& a, const fi_info& b) noexcept {
  return std::strcmp(a.fabric_attr->prov_name, b.fabric_attr->prov_name) == 0 &&
         std::strcmp(a.domain_attr->name, b.domain_attr->name) == 0 &&
         a.addr_format == b.addr_format;
}

bool has_name(const fi_info& info, std::string_view name) noexcept {
  return std::string_view(info.fabric_attr->prov_name) == name;
}

// Real networks, then native ones of the kernel, then what is layered, then one machine alone.
std::size_t place_of(std::string_view provider) {
  constexpr std::string_view ORDERED[] = {
      "cxi",           "efa",         "opx",         "psm3",        "psm2",    "verbs;ofi_rxm",
      "verbs",         "ucx",         "tcp",         "tcp;ofi_rxm", "sockets", "net",
      "verbs;ofi_rxd", "udp;ofi_rxd", "net;ofi_rxm", "shm",         "sm2"};
  return static_cast<std::size_t>(std::find(std::begin(ORDERED), std::end(ORDERED), provider) -
                                  std::begin(ORDERED));
}

// tcp;ofi_rxm posts 4096 receives of 16 KiB for each endpoint, whatever it is asked for. Where tcp
// needs no layer above it (libfabric 1.18 and later) there is no such pool; 1.17 has that provider
// too, as "net".
std::size_t place_of(std::string_view provider, const provider_settings& wanted) {
  if (wanted.is_one_of_many && provider == "net") return place_of("tcp");
  return place_of(provider);
}

// The smaller, the better.
auto grade(const candidate& one, const provider_settings& wanted) {
  const bool is_loopback = one.domain() == "lo";
  const bool is_ipv6 = one.info->addr_format == FI_SOCKADDR_IN6;
  return std::tuple(!one.why_not.empty(), place_of(one.provider(), wanted), is_loopback, is_ipv6);
}

// What libfabric would open and lci cannot use.
std::string objection(const fi_info& info, delivery how) {
  if (how == delivery::asked && !keeps_write_order(info))
    return "it neither says when a write has arrived nor keeps messages behind it";
  if (info.domain_attr->mr_key_size > sizeof(std::uint64_t) ||
      (info.domain_attr->mr_mode & FI_MR_RAW) != 0)
    return "its memory keys are longer than 64 bits (FI_MR_RAW)";
  if (info.ep_attr->msg_prefix_size != 0) return "it needs space in front of messages";
  if (info.src_addrlen > MAX_NAME)
    return "its addresses are longer than " + std::to_string(MAX_NAME) + " bytes";
  return {};
}

delivery delivery_of(const question& ask, const fi_info& info) {
  if (ask.completion == FI_DELIVERY_COMPLETE) return delivery::complete;
  // Reliable connections of verbs are acknowledged by the other card.
  const bool is_verbs = std::string_view(info.fabric_attr->prov_name).starts_with("verbs");
  return is_verbs && ask.completion == FI_TRANSMIT_COMPLETE ? delivery::acknowledged
                                                            : delivery::asked;
}

void add_answers(std::vector<candidate>& to, const question& ask, const provider_settings& wanted,
                 bool with_device_memory) {
  const info_handle hints = hints_for(ask, wanted, with_device_memory);
  fi_info* all = nullptr;
  const base::kept_signals kept;  // providers load libraries, too
  if (library().getinfo(API, nullptr, nullptr, 0, hints.get(), &all) != 0) return;
  const info_handle owner(all);
  for (const fi_info* one = all; one != nullptr; one = one->next) {
    const bool is_known = std::any_of(to.begin(), to.end(), [&](const candidate& other) {
      return is_same_place(*one, *other.info);
    });
    if (is_known) continue;
    candidate found;
    found.info.reset(library().dupinfo(one));
    if (!found.info) throw backend_error("ofi: fi_dupinfo: no memory");
    found.how = delivery_of(ask, *one);
    found.info->tx_attr->op_flags = 0;  // of all operations; writes ask for theirs
    found.why_not = objection(*one, found.how);
    if (found.why_not.empty() && !wanted.domain.empty() && found.domain() != wanted.domain)
      found.why_not = "device_name is " + wanted.domain;
    to.push_back(std::move(found));
  }
}

// For people who have forgotten that libfabric reads a variable of its own.
std::string environment_limit() {
  const auto only = base::env::find("FI_PROVIDER");
  if (!only) return {};
  return "; FI_PROVIDER=" + std::string(*only) + " in the environment limits libfabric to those";
}

}  // namespace

std::string probe() {
  std::string why_not;
  if (find_library(why_not) == nullptr) return why_not;
  try {
    // The first answer that will do: each question makes libfabric look through all interfaces.
    std::vector<candidate> found;
    for (const question& ask : QUESTIONS) {
      add_answers(found, ask, {}, false);
      if (std::any_of(found.begin(), found.end(),
                      [](const candidate& c) { return c.why_not.empty(); }))
        return {};
    }
    std::string why;
    choose({}, why);
  } catch (const std::exception& problem) {
    return problem.what();
  }
  return {};
}

std::vector<net::card_report> report(const net::fabric_config& config) {
  std::vector<net::card_report> out;
  std::string why_not;
  if (find_library(why_not) == nullptr) return out;
  const std::vector<candidate> all = survey(settings_of(config));
  for (const candidate& one : all) {
    net::card_report line{one.name(), describe(one), false, one.why_not, pci_address(*one.info)};
    if (out.empty() && one.why_not.empty()) {
      line.is_chosen = true;
      line.why = "the best there is";
    } else if (one.why_not.empty()) {
      line.why = all.front().name() + " comes first";
    }
    out.push_back(std::move(line));
  }
  return out;
}

provider_settings settings_of(const net::fabric_config& config) {
  return {config.ofi_provider, config.device_name, config.max_inject_wanted,
          !mem::find_chosen_device().empty(), config.is_one_of_many};
}

std::vector<candidate> survey(const provider_settings& wanted) {
  std::vector<candidate> all;
  for (const question& ask : QUESTIONS) {
    if (wanted.wants_device_memory) add_answers(all, ask, wanted, true);
    add_answers(all, ask, wanted, false);
  }
  std::stable_sort(all.begin(), all.end(), [&](const candidate& a, const candidate& b) {
    return grade(a, wanted) < grade(b, wanted);
  });
  return all;
}

candidate choose(const provider_settings& wanted, std::string& why) {
  std::string reasons;
  if (find_library(reasons) == nullptr) throw backend_error("ofi: " + reasons);
  std::vector<candidate> all = survey(wanted);
  if (all.empty())
    throw backend_error(
        "ofi: libfabric knows no provider here with reliable datagrams, messages "
        "and remote memory access" +
        (wanted.provider.empty() ? std::string()
                                 : " that is called " + wanted.provider + " (ofi_provider_name)") +
        environment_limit());
  if (all.front().why_not.empty()) {
    why = wanted.domain.empty()
              ? (all.size() > 1 ? "the best of " + std::to_string(all.size()) : "the only one")
              : "device_name says so";
    return std::move(all.front());
  }
  for (const candidate& one : all) reasons += "; " + one.name() + ": " + one.why_not;
  throw backend_error("ofi: no domain can be used" + reasons);
}

std::string describe(const candidate& one) {
  const fi_domain_attr& domain = *one.info->domain_attr;
  std::string out = address_text(*one.info);
  out += (out.empty() ? "inject " : ", inject ") + std::to_string(one.info->tx_attr->inject_size) +
         ", " + std::to_string(domain.cq_data_size) + " bytes of immediate data, ";
  out += domain.data_progress == FI_PROGRESS_AUTO ? "progress by itself" : "progress by polling";
  out += keeps_message_order(*one.info) ? ", ordered" : ", not ordered";
  constexpr std::pair<int, const char*> MODES[] = {
      {FI_MR_LOCAL, "local"},       {FI_MR_VIRT_ADDR, "addresses"}, {FI_MR_ALLOCATED, "allocated"},
      {FI_MR_PROV_KEY, "own keys"}, {FI_MR_ENDPOINT, "endpoints"},  {FI_MR_HMEM, "gpu"}};
  const char* before = ", registers by ";
  for (const auto& [bit, text] : MODES) {
    if ((domain.mr_mode & bit) == 0) continue;
    out += before;
    out += text;
    before = "+";
  }
  return out;
}

bool keeps_message_order(const fi_info& info) noexcept {
  return (info.tx_attr->msg_order & FI_ORDER_SAS) != 0;
}

bool goes_over_tcp(const fi_info& info) noexcept {
  for (const char* one : {"tcp", "tcp;ofi_rxm", "net", "net;ofi_rxm", "sockets"})
    if (has_name(info, one)) return true;
  return false;
}

// The promise alone is about when headers are looked at. These have one stream to each peer.
bool keeps_write_order(const fi_info& info) noexcept {
  if ((info.tx_attr->msg_order & ORDER) != ORDER) return false;
  // Writes go to another endpoint of the peer than messages.
  if ((info.domain_attr->mr_mode & FI_MR_ENDPOINT) != 0) return false;
  return goes_over_tcp(info) || has_name(info, "verbs;ofi_rxm");
}

bool makes_progress_alone(const fi_info& info) noexcept {
  return info.domain_attr->data_progress == FI_PROGRESS_AUTO && !has_name(info, "net");
}

bool has_write_data(const fi_info& info) noexcept {
  if (info.domain_attr->cq_data_size < sizeof(std::uint64_t)) return false;
  // Such keys are bound to the endpoint of hellos, which would get the data.
  if ((info.domain_attr->mr_mode & FI_MR_ENDPOINT) != 0) return false;
  if (!has_name(info, "cxi")) return true;
  const auto asked = base::env::find("FI_CXI_ENABLE_WRITEDATA");
  return asked && *asked == "1" && FI_VERSION_GE(library().version(), FI_VERSION(2, 5));
}

}  // namespace lci::ofi
