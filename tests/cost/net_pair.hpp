// What the cost tests of networks have in common. Threads: the test's.
#pragma once

#include <algorithm>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "lci/net/provider.hpp"

namespace lci::test {

// Takes messages and does nothing with them; a recorder would be counted, too.
class null_sink final : public net::sink {
 public:
  net::verdict on_message(const net::arrival& message) noexcept override {
    seen += message.size;
    return net::verdict::taken;
  }
  void on_immediate(int, std::uint32_t) noexcept override {}
  void on_complete(void*) noexcept override {}
  void on_error(int, void*, std::string_view) noexcept override {}
  void on_peer_ended(int, bool, std::string_view) noexcept override {}
  std::size_t seen = 0;
};

inline std::unique_ptr<net::fabric> open_named(std::string_view name,
                                               const net::fabric_config& config) {
  for (const net::provider& p : net::providers())
    if (p.name == name) return p.open(config);
  throw std::runtime_error("no provider is called " + std::string(name));
}

inline std::uint64_t median(std::vector<std::uint64_t> all) {
  std::nth_element(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2),
                   all.end());
  return all[all.size() / 2];
}

}  // namespace lci::test
