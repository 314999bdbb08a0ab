// A card that registers GPU memory or refuses to, buffer by buffer. Threads: single.
#pragma once

#include <array>
#include <cerrno>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "tests/unit/proto/gpu_world.hpp"

namespace lci::test {

using choice = std::function<bool(int rank, std::uint64_t buffer)>;

// Refuses the n-th buffer (from 1) of a rank at every rung, if `which` says so. Every buffer begins
// with the first rung, since no refusal is final.
inline auto refusing(choice which) {
  auto is_refused = std::make_shared<std::array<bool, 3>>();
  return [which = std::move(which), is_refused](int rank, mem::rung at, std::uint64_t nth) {
    bool& now = (*is_refused)[static_cast<std::size_t>(rank)];
    if (at == mem::rung::data_direct) now = which(rank, nth);
    mem::registration_answer out;
    if (now) {
      out.why_not = std::string("the card refuses ") + name_of(at);
      out.error = ENOMEM;
    }
    return out;
  };
}

inline gpu_options options_of(choice which, bool maps = false) {
  gpu_options o;
  o.sim.caps.device_memory = true;
  o.sim.device_bytes = &fake_bytes;
  o.sim.late = true;
  o.sim.maps_arenas = maps;
  o.sim.registers = refusing(std::move(which));
  return o;
}

}  // namespace lci::test
