// The seam to work requests that kernels hand to an mlx5 card, tiers T0 to T2: what can be used
// here, and the queue pairs for it. What is behind it is in experimental/ibv/gpu_tiers. Callers:
// provider; lci_info; code that makes endpoints for kernels. Threads: gpu_tiers any; a tier_queue
// has one owner, beside the threads of kernels that post to it. Always true: nothing is opened or
// mapped before it is asked for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "backends/ibv/select.hpp"
#include "backends/ibv/wire.hpp"
#include "lci/mem/kernel_memory.hpp"
#include "lci/net/gpu_tiers.hpp"
#include "lci/wqe/send_queue.hpp"

namespace lci::ibv {

// Where a queue pair is found; both sides need the other's. Exchanged by the caller.
struct tier_address {
  place where;
  std::uint32_t qpn = 0;
  std::uint32_t psn = 0;  // of the first packet
};

struct tier_options {
  net::gpu_tier tier = net::gpu_tier::cpu_rings;  // one of the upper three
  std::uint32_t blocks = 1024;                    // of the ring, at least; a power of two
  std::uint32_t max_inline = wqe::DEFAULT_MAX_INLINE;
  wqe::wait_limits waits;
  std::uint32_t psn = 0;
  // Maps for kernels; null: threads of the processor post, at the addresses of this process.
  mem::kernel_memory* maps = nullptr;
  // In memory of the GPU, for kernels; null: in host memory beside the queue.
  wqe::send_queue_state* state = nullptr;
};

// A reliable queue pair whose requests kernels write. Keys in them are those of regions of `pd`,
// and of the peer's.
class tier_queue {
 public:
  virtual ~tier_queue() = default;
  // For threads of this process; prepared, unless options.state is elsewhere.
  virtual const wqe::send_queue& here() const noexcept = 0;
  // The same queue at the addresses where kernels find it.
  virtual const wqe::send_queue& at_gpu() const noexcept = 0;
  virtual tier_address address() const noexcept = 0;
  // Before the first request is posted. Throws backend_error.
  virtual void connect(const tier_address& peer) = 0;
  // What the processor has to do in this tier; returns how many requests it moved on. Nothing in
  // T0.
  virtual std::size_t progress_st() noexcept = 0;
};

struct gpu_tiers {
  // T0 to T2 on the card that a network would use, each with its probes. Opens the card.
  static std::vector<net::tier_report> probe(const net::fabric_config& config);
  // On a card that is open; all of the parameters outlive it. Throws backend_error.
  static std::unique_ptr<tier_queue> open(const chosen_port& card, ibv_pd* pd,
                                          const tier_options& options);
};

}  // namespace lci::ibv
