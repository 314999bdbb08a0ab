// The other end of a queue pair of tiers T0 to T2, where its peer's kernels write and read: a queue
// pair to which nobody posts. Callers: gpu_tiers. Threads: single. Always true: nothing of it is
// mapped for kernels; its completion queue stays empty, since it takes no receives and posts
// nothing.
#pragma once

#include "experimental/ibv/gpu_tiers/queue_base.hpp"

namespace lci::ibv {

class target_queue final : public queue_base {
 public:
  // Throws backend_error: what could not be made.
  explicit target_queue(const mlx5_card& card);
  std::size_t progress_st() noexcept override { return 0; }

 private:
  ibv_qp* pair() const noexcept override { return qp_.get(); }

  cq_handle cq_;
  qp_handle qp_;
};

}  // namespace lci::ibv
