// Waits in one thread for what several ends, and threads and sockets behind them, bring about.
#pragma once

#include <unistd.h>

#include <chrono>

namespace lci::test {

// Calls move(), which says whether anything happened, until is_over() is true. False: it is not,
// and nothing has happened for two minutes. That is a hang: no machine is that slow.
template <class Move, class Fn>
bool move_until(Move&& move, Fn&& is_over) {
  constexpr auto HANG = std::chrono::minutes(2);
  constexpr int SPINS = 100;  // before it sleeps
  using clock = std::chrono::steady_clock;
  clock::time_point still_since = clock::now();
  for (int idle = 0; !is_over();) {
    if (move()) {
      idle = 0;
      continue;
    }
    if (idle == 0) still_since = clock::now();
    if (++idle <= SPINS) continue;
    if (clock::now() - still_since > HANG) return is_over();
    usleep(100);
  }
  return true;
}

}  // namespace lci::test
