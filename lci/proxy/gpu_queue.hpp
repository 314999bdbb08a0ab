// A queue of active messages that kernels poll: a completion object whose signal copies the message
// into a slot. Callers: the engine, which signals; the endpoint, which moves what had to wait.
// Threads: signal() any; made and ended by one. Always true: messages get turns in the order in
// which they were signalled, one that finds its slot taken waits here with all behind it, and none
// is lost but one that is longer than a slot. One that has ended takes nothing, and holds nothing
// but itself: lci may still have it.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <list>
#include <vector>

#include "lci/base/spinlock.hpp"
#include "lci/gpu/record.hpp"
#include "lci/library_comp.hpp"
#include "lci/proto/gpu/devices.hpp"
#include "lci/proxy/block.hpp"

namespace lci::proxy {

class gpu_queue final : public detail::library_comp_t {
 public:
  // Throws backend_error and std::bad_alloc.
  // The record outlives it.
  gpu_queue(proto::core& core, proto::gpu::devices& gpus, gpu::queue_record& record,
            const gpu::endpoint_record* endpoint, std::uint64_t generation, int gpu,
            std::uint32_t capacity, std::uint32_t message_size);

  // Takes the message's buffer. Throws truncation_error for one that is too long, and
  // std::bad_alloc: it is dropped.
  void signal(status_t status) override;
  // Into slots that are free now; answers how many.
  std::size_t move_waiting() noexcept;
  gpu::queue_record* record() const noexcept { return &record_; }
  // Messages are dropped, those that wait too. Answers what kernels have read.
  std::array<block, 2> end() noexcept;

 private:
  struct message {
    int rank;
    std::uint64_t tag;
    std::vector<std::byte> bytes;
  };
  bool is_free_locked() const noexcept;
  void write_locked(int rank, std::uint64_t tag, const void* bytes, std::size_t size) noexcept;
  gpu::message_slot* slot_of(std::uint64_t turn) const noexcept;
  void take(const status_t& status);

  proto::core& core_;
  const std::uint32_t message_size_;
  gpu::queue_record& record_;
  base::spinlock lock_;  // guards what follows, and the order of turns
  bool is_over_ = false;
  block shared_, own_;
  std::uint64_t turn_ = 0;  // of the last message in a slot
  std::list<message> waiting_;
  std::atomic<std::size_t> waiting_count_{0};
};

}  // namespace lci::proxy
