// What the queue pairs of all tiers have in common: pages of their own, what kernels see of them,
// and how they are connected. Callers: direct_queue, raw_queue. Threads: single.
// Always true: what is mapped for kernels is unmapped before the library frees it, so members are
// declared pages first, maps last; no kernel uses the queue any more when it ends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "backends/ibv/handles.hpp"
#include "backends/ibv/select.hpp"
#include "backends/ibv/tier_queue.hpp"
#include "experimental/ibv/gpu_tiers/mlx5_library.hpp"

namespace lci::ibv {

// Zeroed host memory, whole pages.
class host_pages {
 public:
  explicit host_pages(std::size_t size);  // throws bad_alloc
  ~host_pages();
  host_pages(const host_pages&) = delete;
  host_pages& operator=(const host_pages&) = delete;
  std::byte* at(std::size_t offset) const noexcept { return base_ + offset; }
  std::size_t size() const noexcept { return size_; }

 private:
  std::size_t size_;
  std::byte* base_;
};

// What was mapped, unmapped at the end.
class kernel_maps {
 public:
  explicit kernel_maps(mem::kernel_memory* by) : by_(by) {}
  ~kernel_maps() {
    for (auto at = mapped_.rbegin(); at != mapped_.rend(); ++at) by_->unmap(at->first, at->second);
  }
  kernel_maps(const kernel_maps&) = delete;
  kernel_maps& operator=(const kernel_maps&) = delete;
  // Where kernels find it; without a GPU where it is. Throws backend_error.
  void* map(void* host, std::size_t size, bool is_register = false) {
    if (by_ == nullptr) return host;
    mapped_.reserve(mapped_.size() + 1);
    void* const at = by_->map(host, size, is_register);
    mapped_.emplace_back(host, size);
    return at;
  }

 private:
  mem::kernel_memory* by_;
  std::vector<std::pair<void*, std::size_t>> mapped_;
};

// A card that is open, and the library of its maker.
struct mlx5_card {
  const mlx5& lib;
  const chosen_port& port;
  ibv_pd* pd;
};

// Nothing, if the port is one of that maker's cards.
std::string why_not_mlx5(const mlx5& lib, const chosen_port& port);

// What a queue of the card is made with.
struct pair_settings {
  ibv_cq* cq = nullptr;
  std::uint32_t requests = 0;
  std::uint32_t max_inline = 0;
  bool is_raw = false;  // takes whole work requests: mlx5dv_wr_raw_wqe
};
// Reliable, without payload in completions. `wanted.max_inline` becomes what was granted. Throws
// backend_error.
qp_handle make_mlx5_pair(const mlx5_card& on, pair_settings& wanted);

class queue_base : public tier_queue {
 public:
  const wqe::send_queue& here() const noexcept override { return here_; }
  const wqe::send_queue& at_gpu() const noexcept override { return at_gpu_; }
  tier_address address() const noexcept override;
  void connect(const tier_address& peer) override;

 protected:
  queue_base(const mlx5_card& card, const tier_options& options) : card_(card), options_(options) {}
  virtual ibv_qp* pair() const noexcept = 0;
  // Once all of here_ is known but the state: checks it, and makes it ready to be posted to.
  // `beside`: the state in host memory, used unless the options name one.
  void prepare_here(wqe::send_queue_state* beside);

  const mlx5_card card_;
  const tier_options options_;
  wqe::send_queue here_, at_gpu_;
};

}  // namespace lci::ibv
