// Tiers T0 and T1: a queue pair whose ring, records and completion queue kernels use as they are.
// In T0 they ring the card's register too, in T1 a processor does. Callers: gpu_tiers; the probe.
// Threads: as tier_queue. Always true: the completion queue belongs to the kernels: nothing here
// polls it.
#pragma once

#include <optional>

#include "experimental/ibv/gpu_tiers/mailbox_ringer.hpp"
#include "experimental/ibv/gpu_tiers/queue_base.hpp"

namespace lci::ibv {

class direct_queue final : public queue_base {
 public:
  // Throws backend_error: what could not be made, or mapped.
  direct_queue(const mlx5_card& card, const tier_options& options);
  std::size_t progress_st() noexcept override { return ringer_ ? ringer_->progress_st() : 0; }

 private:
  ibv_qp* pair() const noexcept override { return qp_.get(); }
  void look_at();
  void map_for_kernels();

  host_pages own_;  // the state, and the mailbox behind it
  cq_handle cq_;
  qp_handle qp_;
  kernel_maps maps_;
  wqe::doorbell card_bell_;
  std::optional<mailbox_ringer> ringer_;  // of T1
};

}  // namespace lci::ibv
