// A card of a network whose queues kernels may write themselves, tiers T0 to T2, for code that
// makes endpoints of them. Made by the network that has opened the card. Callers: proxy. Threads:
// the card shared; a queue has one owner, beside the threads of kernels that post to it. Always
// true: a queue takes nothing before it was connected; its memory goes with it, so no kernel may
// use it then.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lci/mem/kernel_memory.hpp"
#include "lci/net/gpu_tiers.hpp"
#include "lci/wqe/send_queue.hpp"

namespace lci::net {

struct remote_target;

struct kernel_queue_options {
  gpu_tier tier = gpu_tier::cpu_rings;  // one of the upper three
  std::uint32_t blocks = 1024;          // of the ring, at least; a power of two
  std::uint32_t max_inline = wqe::DEFAULT_MAX_INLINE;
  wqe::wait_limits waits;
  // Maps for kernels; null: threads of the processor post, at the addresses of this process.
  mem::kernel_memory* maps = nullptr;
};

class kernel_queue {
 public:
  virtual ~kernel_queue() = default;
  // Prepared: for threads of this process, and at the addresses where kernels find it.
  virtual const wqe::send_queue& here() const noexcept = 0;
  virtual const wqe::send_queue& at_gpu() const noexcept = 0;
  // What the other side's connect() needs; both do it before anything is posted. Throws
  // backend_error.
  virtual std::string address() const = 0;
  virtual void connect(std::string_view peer) = 0;
  // What the processor has to do in this tier; answers how many requests it moved on.
  virtual std::size_t progress_st() noexcept = 0;
};

class kernel_card {
 public:
  // T0 to T2, each with what was tried for kernels of a GPU.
  virtual std::vector<tier_report> tiers() = 0;
  // Throws backend_error: the tier cannot be used, with the reason.
  virtual std::unique_ptr<kernel_queue> make_queue(const kernel_queue_options& wanted) = 0;
  // The other end of a peer's queue: nothing is posted to it, and the card does what the peer's
  // kernels ask for. Throws backend_error.
  virtual std::unique_ptr<kernel_queue> make_target() = 0;
  // The number by which work requests name what fabric::register_region() answered so; 0: none.
  virtual std::uint32_t key_of(std::uint64_t local_key) noexcept = 0;
  // The number by which peers' work requests name what is there; 0: this card does not reach it.
  virtual std::uint32_t key_in(const remote_target& at) noexcept = 0;

 protected:
  ~kernel_card() = default;
};

}  // namespace lci::net
