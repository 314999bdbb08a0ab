// Ends of ranks that no network sees, since nobody here is connected with them: the bootstrap hears
// of them, and they are reported to the peer_table; here is only what is not reported yet. Owned by
// the runtime, called from its progress. Threads: shared.
// Always true: networks go first. A rank with which one is connected is theirs to declare dead,
// after what it had sent; only GRACE later do we. That such a rank has left they alone say: here it
// is said of those alone that no device was ever in touch with.
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
  // When, in cpu_ticks(); 0: never.
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
