// Counts the messages of a storm as a card delivers them: none lost, none doubled, each thread's in
// order, and their bytes. Callers: the suites and the benchmark that run one. Threads: single, the
// one that drives the card. Always true: counts only; it writes to no memory but its own.
#pragma once

#include <cstring>
#include <vector>

#include "lci/device/world.hpp"
#include "tests/support/device_code/gpu_calls.hpp"

namespace lci::test {

struct storm_count {
  explicit storm_count(std::uint32_t threads) : next(threads, 0) {}
  std::vector<std::uint32_t> next;  // of each thread
  std::uint64_t received = 0, out_of_order = 0, damaged = 0;
};

class storm_world final : public device::world {
 public:
  explicit storm_world(storm_count& count) : count_(count) {}

  device::answer put(wqe::opcode, const device::local_data& from, device::remote_place to,
                     std::uint32_t, bool) noexcept override {
    const auto thread = static_cast<std::uint32_t>(to.address >> STORM_SHIFT);
    const auto number = static_cast<std::uint32_t>(to.address & ((1u << STORM_SHIFT) - 1));
    ++count_.received;
    if (thread >= count_.next.size() || count_.next[thread] != number) {
      ++count_.out_of_order;
      return {};
    }
    count_.next[thread] = number + 1;
    const std::uint32_t size = storm_size(thread, number);
    count_.damaged += from.length != size || (size != STORM_LONG && !holds(from, thread, number));
    return {};
  }
  device::answer get(device::remote_place, const device::local_data&) noexcept override {
    return device::failed(wqe::syndrome::remote_invalid_request);
  }
  device::answer send(wqe::opcode, const device::local_data&, std::uint32_t,
                      bool) noexcept override {
    return device::failed(wqe::syndrome::remote_invalid_request);
  }
  device::answer atomic(wqe::opcode, const wqe::atomic_operands&, device::remote_place,
                        std::byte*) noexcept override {
    return device::failed(wqe::syndrome::remote_invalid_request);
  }

 private:
  static bool holds(const device::local_data& data, std::uint32_t thread, std::uint32_t number) {
    for (std::uint32_t i = 0; i < data.length / 4; ++i) {
      std::uint32_t word = 0;
      std::memcpy(&word, data.pieces[0].at + 4 * i, 4);
      if (word != storm_word(thread, number, i)) return false;
    }
    return true;
  }
  storm_count& count_;
};

}  // namespace lci::test
