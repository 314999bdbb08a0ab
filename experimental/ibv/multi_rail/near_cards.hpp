// Which of several cards are near to the memory of a GPU. Owned by side_regions.
// Threads: shared. Always true: at least one card is near to everything.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "lci/mem/memory_domain.hpp"
#include "lci/net/locality.hpp"
#include "lci/net/topology.hpp"

namespace lci::ibv {

class near_cards {
 public:
  // A set of cards; bit k is card k.
  using set = std::uint32_t;
  static constexpr set ALL = ~set{0};

  // Near to everything.
  near_cards() = default;
  // By the PCI addresses of all that are used, in their order.
  near_cards(const net::topology& machine, const std::vector<std::string>& cards);

  // The nearest to whatever that is memory of; all where nothing is known.
  set to(const void* address) const;
  // The nearest to that PCI function.
  set to_pci(const std::string& address) const;

 private:
  const net::topology* machine_ = nullptr;
  std::vector<net::place> cards_;
  mutable std::mutex mutex_;                                                // guards what follows
  mutable std::map<std::pair<const mem::memory_domain*, int>, set> known_;  // by GPU
};

}  // namespace lci::ibv
