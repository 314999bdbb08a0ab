// Detects the end of ranks that no network here is connected with: the bootstrap reports them to
// this detector, and it reports them to the peer_table; it keeps only those not reported yet. Owned
// by the runtime, called from its progress. Threads: shared.
// Always true: networks come first. If a network is connected with a rank, it is the one to declare
// it failed, after delivering what the rank had sent; this detector does so only GRACE later. That
// such a rank has left is reported by networks alone; this detector reports it only for ranks that
// no device is in touch with: none has met it, or it has left each network where one has.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "lci/base/spinlock.hpp"
#include "lci/boot/bootstrap.hpp"
#include "lci/proto/engine/core.hpp"

namespace lci::runtime {

class failure_detector final : public proto::failure_detector {
 public:
  static constexpr std::chrono::milliseconds INTERVAL{10};
  static constexpr std::chrono::milliseconds GRACE{1000};

  explicit failure_detector(proto::core& to) noexcept : to_(to) {}
  void look() noexcept override;
  // When look() last ran, in cpu_ticks(); 0: never.
  std::uint64_t last_look() const noexcept { return looked_.load(std::memory_order_relaxed); }

 private:
  struct unconfirmed {
    boot::departure what;
    std::uint64_t due_ticks;
  };
  void hear(std::uint64_t now);
  bool is_settled(const unconfirmed& one, std::uint64_t now);

  proto::core& to_;
  std::atomic<std::uint64_t> next_ticks_{0};
  std::atomic<std::uint64_t> looked_{0};  // statistics
  base::spinlock lock_;                   // guards what follows
  std::size_t seen_ = 0;                  // of global_state::departures
  std::vector<unconfirmed> unconfirmed_;
};

}  // namespace lci::runtime
