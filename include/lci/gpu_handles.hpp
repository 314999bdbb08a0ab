/// @file gpu_handles.hpp
/// What a host program makes and kernels receive: plain bytes that are passed by value. C++11, for
/// host compilers and for nvcc. Included by gpu.hpp and device.cuh.
#ifndef LCI_GPU_HANDLES_HPP
#define LCI_GPU_HANDLES_HPP

#include <cstdint>

namespace lci {
/// Communication that a kernel starts: types that host and kernel share, and, with device.cuh, the
/// calls of kernels.
namespace gpu {

struct endpoint_record;
struct queue_record;

/// Handle of an endpoint for kernels of one GPU, or, made with `.gpu(NO_GPU)`, for threads of the
/// process that run the same code. Copies name the same endpoint. Any number of threads may use it
/// at the same time. Owns nothing: free_gpu_endpoint() ends it, and later calls with a copy return
/// status::bad_endpoint while the runtime lives.
struct endpoint_t {
  const endpoint_record* record = nullptr;  ///< internal, in memory that its GPU reads
  std::uint64_t generation = 0;             ///< internal
  /// Whether it names no endpoint.
  /// @return true if so
  bool is_empty() const { return record == nullptr; }
};

/// Memory that a work request may name: a region of this process, from get_gpu_key(mr), or one of a
/// peer, from get_gpu_key(rmr). Plain bytes that are valid in this process only: send the rmr_t to
/// a peer.
struct key_t {
  std::uint64_t base = 0;  ///< address of the first byte in the process that owns it
  /// bytes; UNKNOWN_LENGTH: only the owner's table knows, and checks
  std::uint64_t length = 0;
  /// Address at which kernels of the GPU access the first byte by plain loads and stores: own
  /// memory, or mapped GPU memory of a peer. 0: access takes a work request.
  std::uint64_t mapped = 0;
  std::uint32_t key = 0;   ///< name in work requests
  std::int32_t rank = -1;  ///< the rank that owns it; ANY_RANK: not known here
  /// Not 0: `mapped` is in the memory of the GPU whose kernels use the key, and only kernels of
  /// that GPU wait for words of it, so no order beyond that GPU is needed.
  std::uint32_t is_near = 0;
  /// Not 0: atomic operations, and signals that add, take a work request although the memory is
  /// mapped, because the connection between the two GPUs has no atomics.
  std::uint16_t no_atomics = 0;
  /// Not 0: `key` is a card's own key, valid only for endpoints over that card (tiers T0 to T2).
  std::uint16_t of_card = 0;
  /// Name of the same memory in messages and atomic operations of an endpoint over a card, which do
  /// not go through the card.
  std::uint32_t message_key = 0;
};

/// A place in registered memory.
struct place_t {
  key_t key;                 ///< the region
  std::uint64_t offset = 0;  ///< bytes from its begin
};

/// Handle of a queue of active messages that kernels poll, see alloc_gpu_queue_x.
struct queue_t {
  queue_record* record = nullptr;  ///< internal, in memory that its GPU reads
  /// Whether it names no queue.
  /// @return true if so
  bool is_empty() const { return record == nullptr; }
};

/// Of `key_t::length`: not known in this process.
const std::uint64_t UNKNOWN_LENGTH = ~static_cast<std::uint64_t>(0);
/// Of `key_t::rank`: not known here. Requests to another rank than the owner fail.
const std::int32_t ANY_RANK = -1;
/// In place of a GPU's number: an endpoint for threads of the process.
const int NO_GPU = -1;

}  // namespace gpu
}  // namespace lci

#endif  // LCI_GPU_HANDLES_HPP
