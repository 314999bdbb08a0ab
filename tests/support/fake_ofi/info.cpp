// What the library says of its one domain.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tests/support/fake_ofi/state.hpp"

namespace lci::test::fabric_model {
namespace {

// As PSM does when it is loaded.
[[gnu::constructor]] void handle_signals() {
  if (std::getenv("LCI_FAKE_OFI_HANDLES") != nullptr) signal(SIGTERM, [](int) { std::_Exit(3); });
}

template <class T>
T* make(const T* from) {
  T* const out = static_cast<T*>(std::calloc(1, sizeof(T)));
  if (from != nullptr) *out = *from;
  return out;
}

char* copy_of(const char* text) { return text != nullptr ? strdup(text) : nullptr; }

void* copy_of(const void* from, std::size_t size) {
  if (from == nullptr) return nullptr;
  void* const out = std::malloc(size);
  std::memcpy(out, from, size);
  return out;
}

fid_nic* duplicate(const fid_nic* from) {
  if (from == nullptr) return nullptr;
  fid_nic* const out = make(from);
  out->bus_attr = make(from->bus_attr);
  return out;
}

fi_info* duplicate(const fi_info* from) {
  fi_info* const out = make(from);
  out->next = nullptr;
  out->nic = duplicate(out->nic);
  out->src_addr = copy_of(out->src_addr, out->src_addrlen);
  out->dest_addr = nullptr;
  const fi_info none{};
  const fi_info& old = from != nullptr ? *from : none;
  out->tx_attr = make(old.tx_attr);
  out->rx_attr = make(old.rx_attr);
  out->ep_attr = make(old.ep_attr);
  out->domain_attr = make(old.domain_attr);
  out->fabric_attr = make(old.fabric_attr);
  out->domain_attr->name = copy_of(out->domain_attr->name);
  out->fabric_attr->name = copy_of(out->fabric_attr->name);
  out->fabric_attr->prov_name = copy_of(out->fabric_attr->prov_name);
  return out;
}

// Whether the domain does what is asked for.
bool can(const fi_info& hints, const fake_ofi_config& config) {
  const char* const name = hints.fabric_attr->prov_name;
  if (name != nullptr && config.provider != name) return false;
  if (!config.keeps_order && hints.tx_attr->msg_order != 0) return false;
  if (!config.has_delivery && (hints.tx_attr->op_flags & FI_DELIVERY_COMPLETE) != 0) return false;
  if (!config.has_gpu_memory && (hints.caps & FI_HMEM) != 0) return false;
  if ((config.mr_mode & ~hints.domain_attr->mr_mode & ~FI_MR_RAW) != 0) return false;
  return hints.tx_attr->inject_size <= config.inject;
}

template <class T>
void set_source(fi_info& of, std::uint32_t format, const T& address) {
  of.addr_format = format;
  of.src_addrlen = sizeof(address);
  of.src_addr = copy_of(&address, sizeof(address));
}

void set_source(fi_info& of, const std::string& text) {
  sockaddr_in four{};
  sockaddr_in6 six{};
  four.sin_family = AF_INET;
  six.sin6_family = AF_INET6;
  if (inet_pton(AF_INET, text.c_str(), &four.sin_addr) == 1) {
    set_source(of, FI_SOCKADDR_IN, four);
  } else if (inet_pton(AF_INET6, text.c_str(), &six.sin6_addr) == 1) {
    set_source(of, FI_SOCKADDR_IN6, six);
  } else {
    of.addr_format = FI_ADDR_STR;
    of.src_addrlen = text.size() + 1;
    of.src_addr = copy_of(text.c_str(), text.size() + 1);
  }
}

fid_nic* card_at(const std::string& pci) {
  unsigned domain = 0, bus = 0, device = 0, function = 0;
  if (std::sscanf(pci.c_str(), "%x:%x:%x.%x", &domain, &bus, &device, &function) != 4)
    return nullptr;
  fid_nic* const out = make<fid_nic>(nullptr);
  out->bus_attr = make<fi_bus_attr>(nullptr);
  out->bus_attr->bus_type = FI_BUS_PCI;
  out->bus_attr->attr.pci = {static_cast<std::uint16_t>(domain), static_cast<std::uint8_t>(bus),
                             static_cast<std::uint8_t>(device),
                             static_cast<std::uint8_t>(function)};
  return out;
}

fi_info* answer(const fi_info& hints, const fake_ofi_config& config) {
  fi_info* const out = duplicate(&hints);
  std::free(out->fabric_attr->prov_name);
  out->fabric_attr->prov_name = strdup(config.provider.c_str());
  out->fabric_attr->name = strdup("fake");
  out->domain_attr->name = strdup(config.domain.c_str());
  out->domain_attr->mr_mode = config.mr_mode;
  out->domain_attr->mr_key_size = config.key_bytes;
  out->domain_attr->cq_data_size = config.data_bytes;
  out->domain_attr->data_progress = config.makes_progress ? FI_PROGRESS_AUTO : FI_PROGRESS_MANUAL;
  out->ep_attr->max_msg_size = config.most;
  out->tx_attr->inject_size = config.inject;
  out->tx_attr->msg_order = config.keeps_order ? FI_ORDER_SAS | FI_ORDER_SAW | FI_ORDER_WAW : 0;
  out->tx_attr->size = out->rx_attr->size = 256;
  set_source(*out, config.source);
  out->nic = card_at(config.pci);
  out->mode = 0;
  return out;
}

}  // namespace
}  // namespace lci::test::fabric_model

using namespace lci::test::fabric_model;

#define LCI_EXPORT extern "C" __attribute__((visibility("default")))

LCI_EXPORT fi_info* lci_fake_dupinfo(const fi_info*) __asm__("fi_dupinfo");
fi_info* lci_fake_dupinfo(const fi_info* from) {
  const std::lock_guard guard(state().lock);
  return state().enter("fi_dupinfo") != 0 ? nullptr : duplicate(from);
}

LCI_EXPORT void lci_fake_freeinfo(fi_info*) __asm__("fi_freeinfo");
void lci_fake_freeinfo(fi_info* all) {
  while (all != nullptr) {
    fi_info* const next = all->next;
    std::free(all->domain_attr->name);
    std::free(all->fabric_attr->name);
    std::free(all->fabric_attr->prov_name);
    if (all->nic != nullptr) std::free(all->nic->bus_attr);
    for (void* part : {static_cast<void*>(all->tx_attr), static_cast<void*>(all->rx_attr),
                       static_cast<void*>(all->ep_attr), static_cast<void*>(all->domain_attr),
                       static_cast<void*>(all->fabric_attr), static_cast<void*>(all->nic),
                       all->src_addr, static_cast<void*>(all)})
      std::free(part);
    all = next;
  }
}

LCI_EXPORT int lci_fake_getinfo(std::uint32_t, const char*, const char*, std::uint64_t,
                                const fi_info*, fi_info**) __asm__("fi_getinfo");
int lci_fake_getinfo(std::uint32_t, const char*, const char*, std::uint64_t, const fi_info* hints,
                     fi_info** out) {
  const std::lock_guard guard(state().lock);
  if (const int code = state().enter("fi_getinfo"); code != 0) return code;
  *out = nullptr;
  lci::test::fake_ofi_config config = state().config;
  const std::string also = config.also;
  if (can(*hints, config)) *out = answer(*hints, config);
  config.provider = also;
  if (!also.empty() && can(*hints, config)) {
    fi_info* const first = answer(*hints, config);
    first->next = *out;
    *out = first;
  }
  return *out != nullptr ? 0 : -FI_ENODATA;
}

LCI_EXPORT std::uint32_t lci_fake_version() __asm__("fi_version");
std::uint32_t lci_fake_version() {
#ifdef LCI_FAKE_OFI_OLD
  return FI_VERSION(1, 9);
#else
  return FI_VERSION(1, 17);
#endif
}

#ifndef LCI_FAKE_OFI_BROKEN
LCI_EXPORT const char* lci_fake_strerror(int) __asm__("fi_strerror");
const char* lci_fake_strerror(int code) {
  // A name would be the reader's; the number is what tests look for.
  thread_local char text[32];
  std::snprintf(text, sizeof(text), "fake error %d", code);
  return text;
}
#endif
