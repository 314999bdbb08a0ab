// Reliable queue pairs on the way from made to stopped. Callers: device_queues, connector,
// event_queue. Threads: as the callers'.
#pragma once

#include <cstdint>

#include "backends/ibv/cards.hpp"
#include "backends/ibv/connection.hpp"
#include "backends/ibv/select.hpp"
#include "backends/ibv/wire.hpp"

namespace lci::ibv {

// Where the peers' cards find that one.
place place_of(const chosen_port& card) noexcept;
// The way from a card here to one of theirs.
ibv_ah_attr path_to(const place& where, const chosen_port& from) noexcept;

// One on that card, ready to be connected. Throws backend_error.
qp_handle make_queue_pair(const chosen_port& card, ibv_pd* pd, ibv_qp_init_attr& made, int rank);
// A queue pair here and its peer's.
struct pairing {
  const chosen_port& mine;
  place theirs;
  std::uint32_t qpn;
};
// Once both sides' numbers are known. psn: where ours start. Throws backend_error; called again
// then, it goes on.
void connect_queue_pair(connection& on, const pairing& to, const hello& said, std::uint32_t psn,
                        const patience& tries);
// What was posted comes back flushed, unless the card does not even stop.
void stop_queue_pair(connection& on) noexcept;

}  // namespace lci::ibv
