#include "backends/provider_list.hpp"

namespace lci {

std::span<const net::provider> net::providers() {
  static const auto all = gather(PROVIDERS);
  return all;
}

std::span<const mem::memory_domain> mem::memory_domains() {
  static const auto all = gather(MEMORY_DOMAINS);
  return all;
}

}  // namespace lci
