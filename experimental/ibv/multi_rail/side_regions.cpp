#include "experimental/ibv/multi_rail/side_regions.hpp"

#include <algorithm>
#include <cerrno>
#include <exception>

#include "backends/ibv/cards.hpp"
#include "experimental/ibv/multi_rail/pieces.hpp"
#include "lci/base/log.hpp"

namespace lci::ibv {

std::unique_ptr<rail_regions> make_rail_regions(const cards& on, regions& of) {
  // Nonsense in the environment is an error with one card too.
  const std::size_t least = least_to_cut();
  if (on.rails().empty()) return nullptr;
  auto out = std::make_unique<side_regions>(of, on.config(), least);
  std::vector<std::string> pcis{on.first().pci};
  for (const rail& one : on.rails()) {
    out->add_card(one.pd.get(), one.card.name);
    pcis.push_back(one.card.pci);
  }
  const auto near = std::make_shared<near_cards>(this_machine(), pcis);
  out->find_near_by([near](const void* address) { return near->to(address); });
  return out;
}

// The registration of all memory serves, if there is one.
void side_regions::prepare(registration& made) {
  if (made.size < least_) return;
  if (made.kind == mem::mem_kind::device) {
    made.is_far_from_first = (near_to_(made.address) & 1u) == 0;
    return;
  }
  if (made.on[0] == nullptr) return;
  for (std::size_t i = 0; i < cards_.size(); ++i)
    made.on[i + 1] = cards_[i]->of_everything(made.address, made.size);
}

mr_handle side_regions::register_on(registrar& card, void* address, std::size_t size,
                                    mem::mem_kind kind) {
  return first_.evicting_for([&] {
    bool is_source_only = false;
    if (kind == mem::mem_kind::host) return card.host(address, size, is_source_only);
    const mem::device_registration got = card.device(address, size);
    errno = got.error();
    return mr_handle(reinterpret_cast<ibv_mr*>(got.key));
  });
}

// One that refuses, or is far from the GPU, is not used for that memory.
void side_regions::add(mr_set& to, void* address, std::size_t size, mem::mem_kind kind) {
  if (size < least_) return;
  const near_cards::set near = kind == mem::mem_kind::device ? near_to_(address) : near_cards::ALL;
  for (std::size_t i = 0; i < cards_.size(); ++i) {
    if ((near >> (i + 1) & 1u) == 0) continue;
    to[i + 1] = register_on(*cards_[i], address, size, kind);
    if (!to[i + 1]) say_refused(*cards_[i], size);
  }
}

void side_regions::say_refused(const registrar& by, std::size_t size) noexcept {
  // Relaxed: it is said once, and nothing is read by it.
  if (!was_refused_.exchange(true, std::memory_order_relaxed))
    base::log::warn("ibv", "%s does not register %zu bytes; they go over other cards alone",
                    by.name().c_str(), size);
}

// When it is asked for first, as the slots that memory of GPUs passes through are; packets alone
// never are. At such lengths a lock costs nothing.
void side_regions::add_of_arena(regions::by_card& to, std::uint64_t offset,
                                std::size_t size) noexcept {
  constexpr std::size_t SPAN = mem::arena::SPAN;
  if (size < least_) return;
  const std::lock_guard lock(mutex_);
  auto found = of_arena_.lower_bound(offset + size);
  while (found != of_arena_.end() && found->second.begin > offset) ++found;
  try {
    if (found == of_arena_.end()) {
      range made{offset / SPAN * SPAN, {}};
      const std::uint64_t end =
          std::min<std::uint64_t>((offset + size + SPAN - 1) / SPAN * SPAN, arena_.committed());
      for (std::size_t i = 0; i < cards_.size(); ++i) {
        made.on[i + 1] = first_.evicting_for([&] {
          return cards_[i]->strictly(arena_.at(made.begin), end - made.begin, READ_WRITE);
        });
        if (!made.on[i + 1]) say_refused(*cards_[i], end - made.begin);
      }
      found = of_arena_.emplace(end, std::move(made));
    }
  } catch (const std::exception&) {
    return;
  }
  for (std::size_t i = 1; i < MAX_RAILS; ++i) to[i] = found->second.on[i].get();
}

}  // namespace lci::ibv
