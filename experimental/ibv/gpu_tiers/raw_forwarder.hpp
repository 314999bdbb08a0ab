// The processor's part in tier T2: takes requests from a ring that is not the card's, hands each to
// the driver as it is, and writes a completion for each that the driver reports. Callers:
// raw_queue. Threads: single; kernels write the ring meanwhile. Always true: a request is copied,
// in one piece, before it is handed over, with its own queue number; one that the driver has no
// room for stays in the ring, in its place; a completion stays with the driver while the kernel's
// queue is full; after a request that cannot be handed over nothing more is.
#pragma once

#include <cstddef>
#include <cstdint>

#include "experimental/ibv/gpu_tiers/mlx5_library.hpp"
#include "lci/device/cq_writer.hpp"
#include "lci/wqe/send_queue.hpp"

namespace lci::ibv {

// Where it posts and polls.
struct raw_way {
  ibv_qp_ex* qp = nullptr;
  mlx5dv_qp_ex* direct = nullptr;
  ibv_cq_ex* cq = nullptr;
};

// The error of a card that a status of the verbs stands for.
wqe::syndrome syndrome_of(ibv_wc_status status) noexcept;

class raw_forwarder {
 public:
  // queue: the kernels' one, with a mailbox for a doorbell.
  raw_forwarder(const raw_way& way, const wqe::send_queue& queue)
      : way_(way), queue_(queue), cq_(queue.cq) {}

  // Returns how many requests were handed over or completed.
  std::size_t progress_st() noexcept { return forward() + take_completions(); }

 private:
  std::size_t forward() noexcept;
  bool copy_next(std::uint64_t until) noexcept;
  void refuse() noexcept;
  std::size_t take_completions() noexcept;
  void write_completion() noexcept;

  raw_way way_;
  wqe::send_queue queue_;
  device::cq_writer cq_;
  std::uint64_t next_ = 0;  // block that was not handed over
  bool has_refused_ = false;
  std::uint32_t blocks_ = 0;  // of what was copied
  wqe::octoword copy_[wqe::MAX_OCTOWORDS];
};

}  // namespace lci::ibv
