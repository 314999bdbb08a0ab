// What an endpoint is in memory: the records that the host side writes and the calls of
// kernels (this room) read. Callers: both. Threads: as each field says. Always true: what kernels
// only read is written before the handle is given out, but for the words that say that something
// has ended, which change once; a record is kept, with another generation, until the runtime ends,
// so that a freed handle finds that out and no other memory.
#pragma once

#include <cstdint>

#include "lci/gpu_handles.hpp"
#include "lci/wqe/send_queue.hpp"

namespace lci::gpu {

using status = wqe::status;

// The queue to one rank.
struct peer_record {
  wqe::send_queue queue;
  // Not 0: the rank has failed or left. Written by the host.
  std::uint32_t* ended = nullptr;
};

// What a posted receive has become; one for each that may be posted at a time. Taken by the kernel
// that posts it, written by the host, given back by the kernel that waits for it.
struct alignas(64) receive_slot {
  // 0: free. 2n - 1: the receive of turn n, which is in slot (n - 1) % receive_count, is posted.
  // 2n: it has ended.
  // edge gpu.receive, other side in the host's store of the even value.
  std::uint64_t state;
  std::int32_t result;  // a status
  std::int32_t rank;    // the sender
  std::uint64_t size;   // bytes of the message
  std::uint64_t tag;
};

// Bit of the generation of an endpoint whose calls are for kernels; without it they are for threads
// of the process. A kernel has no way to ask which GPU it runs on, so no more than this is checked.
inline constexpr std::uint64_t OF_GPU = std::uint64_t{1} << 63;

struct endpoint_record {
  // Of the handle that names it; another one once it was freed.
  // Stored relaxed by the host when the endpoint ends: nothing is read after it.
  std::uint64_t generation = 0;
  std::uint32_t me = 0, ranks = 0;
  std::int32_t gpu = NO_GPU;
  std::uint32_t max_inline = 0;
  const peer_record* peers = nullptr;  // `ranks` of them
  // Not 0: cards read the queues, and know their own keys alone. Messages and atomic operations
  // take queues of their own then, which the proxy reads: `ranks` of them, null: there are none.
  std::uint32_t over_card = 0;
  const peer_record* message_peers = nullptr;
  wqe::wait_limits waits;  // of every wait, those of the queues included
  // Not 0: some rank has ended, see peer_record::ended.
  const std::uint32_t* any_ended = nullptr;
  receive_slot* receives = nullptr;
  std::uint32_t receive_count = 0;        // a power of two
  std::uint64_t* next_receive = nullptr;  // turns taken so far, in memory of the endpoint's GPU
  // Memory of the endpoint that atomic operations name: 8 bytes for unwanted old values, then 8 for
  // each of `scratch_count` (a power of two) atomics that a kernel waits for. What has become of
  // each of these, see scratch.hpp, is in memory of the endpoint's GPU.
  key_t scratch;
  std::uint32_t scratch_count = 0;
  std::uint64_t* scratch_taken = nullptr;
};

// A queue of active messages that kernels poll: `capacity` slots of `stride` bytes, each a
// message_slot and then the bytes of the message.
struct message_slot {
  // The turn of the message that is there, from 1 on; slot i holds turns i + 1, i + 1 + capacity...
  // 0: free, stored by the kernel that has copied the message; only then the host writes again.
  // edge gpu.queue, other side in the host's store; edge gpu.queue_free, other side in its look.
  std::uint64_t turn;
  std::uint64_t tag;
  std::int32_t rank;
  std::uint32_t size;  // stored as a word, relaxed: takers look at it before the message is theirs
};
struct queue_record {
  unsigned char* slots = nullptr;
  std::uint32_t capacity = 0, stride = 0;
  std::uint64_t* taken = nullptr;  // turns that kernels have taken, in memory of the GPU
  const endpoint_record* endpoint = nullptr;
  std::uint64_t generation = 0;  // of the endpoint
};

}  // namespace lci::gpu
