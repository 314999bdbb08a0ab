#include "backends/ibv/fabric.hpp"

#include "backends/ibv/multi_rail.hpp"

namespace lci::ibv {

fabric::fabric(const net::fabric_config& config)
    : cards_(config),
      caps_(cards_.caps()),
      memory_(cards_.pd(), cards_.first().name, cards_.config()),
      connector_(cards_, memory_),
      keys_(memory_, *config.arena, connector_, config.book->size()) {
  caps_.keeps_registrations = memory_.is_keeping();
  connector_.before_ready([this](int rank) { keys_.outdate(rank); });
  base::ticks_per_ms();  // measured here rather than in the first poll
  memory_.set_rails(make_rail_regions(cards_, memory_));
}

// Without leave() before, peers take this for a death, as soon as they miss us.
fabric::~fabric() = default;

std::unique_ptr<event_queue> fabric::make_queue(int index, const net::device_config& wanted) {
  auto out = std::make_unique<event_queue>(connector_, keys_, cards_, memory_,
                                           connector_.requests(), index, wanted);
  out->set_rails(make_rail_queues(*out));
  return out;
}

void fabric::leave() noexcept { leave_all(); }

}  // namespace lci::ibv
