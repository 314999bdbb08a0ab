#include "experimental/ibv/multi_rail/near_cards.hpp"

namespace lci::ibv {

near_cards::near_cards(const net::topology& machine, const std::vector<std::string>& cards)
    : machine_(&machine) {
  for (const std::string& pci : cards) cards_.push_back(machine.of_pci(pci));
}

near_cards::set near_cards::to(const void* address) const {
  if (machine_ == nullptr) return ALL;
  const mem::memory_place where = mem::find_place(address);
  if (where.domain == nullptr || where.domain->pci_of == nullptr) return ALL;
  const std::lock_guard lock(mutex_);
  const auto known = known_.find({where.domain, where.device});
  if (known != known_.end()) return known->second;
  const std::string pci = where.domain->pci_of(where.device);
  const set out = pci.empty() ? ALL : to_pci(pci);
  known_.emplace(std::pair{where.domain, where.device}, out);
  return out;
}

near_cards::set near_cards::to_pci(const std::string& address) const {
  const net::place there = machine_->of_pci(address);
  auto best = net::nearness::far;
  set out = 0;
  for (std::size_t i = 0; i < cards_.size(); ++i) {
    const net::nearness its = net::nearness_of(cards_[i], there);
    if (its < best) out = 0;
    if (its > best) continue;
    best = its;
    out |= set{1} << i;
  }
  return out;
}

}  // namespace lci::ibv
