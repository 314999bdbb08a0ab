// What GPUs copy for the protocols. The records come from pools. Threads: as the operations that
// they serve; ended() in whichever thread polls the devices.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "lci/data/object_pool.hpp"
#include "lci/proto/engine/op.hpp"
#include "lci/proto/gpu/devices.hpp"
#include "lci/proto/gpu/flag_words.hpp"
#include "lci/proto/host/accelerator_hook.hpp"

namespace lci::proto::gpu {

struct context;
struct slot_set;

// Tells a peer that a GPU writes into a receive of which it has told.
class claim_sender {
 public:
  virtual void say(int rank, const wire::claim& body) noexcept = 0;

 protected:
  ~claim_sender() = default;
};

// The whole of a transfer, from end to end; peer_copy.hpp.
class direct_copy final : public device_job, public carrier {
 public:
  direct_copy* pool_next = nullptr;
  context* ctx = nullptr;
  transfer* move = nullptr;
  mem::mapped_memory far;          // the peer's side, while the copy is under way
  flag_word* flag = nullptr;       // which the GPU sets for the target
  claim_sender* claims = nullptr;  // the destination is a receive of which its rank has told
  std::uint64_t began = 0;         // ticks, if shared_gpu_ways is to be told of its end
  void start(transfer& of) noexcept override;
  void discard(transfer& of) noexcept override;
  void ended(std::string_view error) noexcept override;
};

// A message of a few bytes on its way from one of our buffers to a receive in GPU memory.
class late_arrival final : public device_job {
 public:
  late_arrival* pool_next = nullptr;
  void ended(std::string_view error) noexcept override;

 private:
  friend void deliver_to_device(context&, receive&, const status_t&, const std::byte*);
  // False: there is no memory.
  bool take(context& ctx, const std::byte* data, std::size_t bytes) noexcept;

  context* ctx_ = nullptr;           // where problems are kept
  host_context* counted_ = nullptr;  // of a receive
  user_side user_;
  slot_set* set_ = nullptr;    // the bytes are here,
  std::byte* heap_ = nullptr;  // or here
};

// A message on its way from our host memory to GPU memory.
class am_copy final : public device_job {
 public:
  am_copy* pool_next = nullptr;
  void ended(std::string_view error) noexcept override;

 private:
  friend class payload_arrivals;
  context* ctx_ = nullptr;
  user_side user_;
  am_place place_;
  slot_set* set_ = nullptr;    // the bytes are here,
  std::byte* heap_ = nullptr;  // or here
};

// Where they come from. Owned beside core.
struct job_pools {
  data::object_pool<direct_copy> direct_copies;
  data::object_pool<late_arrival> late_arrivals;
  data::object_pool<am_copy> am_copies;
};

}  // namespace lci::proto::gpu
