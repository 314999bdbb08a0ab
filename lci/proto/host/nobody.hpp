// What an empty completion object has a number for: messages to it are dropped and counted. One per
// runtime. Threads: shared.
#pragma once

#include <atomic>
#include <cstdint>

#include "lci/library_comp.hpp"

namespace lci::proto {

class core;

class nobody final : public detail::library_comp_t {
 public:
  explicit nobody(core& of) noexcept : of_(of) {}
  // The message is complete; its buffer goes back to where it came from.
  void signal(status_t status) override;
  // Relaxed: a statistic.
  std::uint64_t dropped() const noexcept { return dropped_.load(std::memory_order_relaxed); }

 private:
  core& of_;
  std::atomic<std::uint64_t> dropped_{0};
};

}  // namespace lci::proto
