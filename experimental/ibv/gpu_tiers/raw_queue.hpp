// Tier T2: a ring and a completion queue in host memory for kernels, and a queue pair of the card
// that takes whole work requests. Callers: gpu_tiers; the probe. Threads: as tier_queue.
// Always true: the card's queue holds as many requests as the ring has blocks, so what the ring
// admits the card has room for.
#pragma once

#include <optional>

#include "experimental/ibv/gpu_tiers/queue_base.hpp"
#include "experimental/ibv/gpu_tiers/raw_forwarder.hpp"

namespace lci::ibv {

class raw_queue final : public queue_base {
 public:
  // Throws backend_error: what could not be made, or mapped.
  raw_queue(const mlx5_card& card, const tier_options& options);
  std::size_t progress_st() noexcept override { return forwarder_->progress_st(); }

 private:
  ibv_qp* pair() const noexcept override { return qp_.get(); }

  host_pages own_;  // all that kernels see
  cq_handle cq_;
  qp_handle qp_;
  kernel_maps maps_;
  std::optional<raw_forwarder> forwarder_;
};

}  // namespace lci::ibv
