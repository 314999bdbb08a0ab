#include "backends/provider_list.hpp"
#include "lci/net/provider_order.hpp"

namespace lci {

std::span<const net::provider> net::providers() {
  static const auto all = [] {
    auto list = gather(PROVIDERS);
    put_in_order(list, LCI_NETWORK_BACKENDS_ENABLED);
    return list;
  }();
  return all;
}

std::span<const mem::memory_domain> mem::memory_domains() {
  static const auto all = gather(MEMORY_DOMAINS);
  return all;
}

}  // namespace lci
