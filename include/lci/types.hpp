/// @file types.hpp
/// Scalars, enumerations and callback types of the public interface. Immutable; no code.
#ifndef LCI_TYPES_HPP
#define LCI_TYPES_HPP

#include <cstddef>
#include <cstdint>

namespace lci {

struct status_t;

/// The user's matching number. All 64 bits are matched.
typedef uint64_t tag_t;
/// Number under which a completion object is registered for peers; 0 means "none".
typedef uint32_t rcomp_t;
/// The 32 bits that travel with a network operation.
typedef uint32_t net_imm_data_t;
/// Key of matching_engine_insert().
typedef uint64_t matching_entry_key_t;
/// Value of matching_engine_insert(); null means "no partner found".
typedef void* matching_entry_val_t;
/// Function run by a handler completion object, in the thread that signals it.
typedef void (*comp_handler_t)(status_t status);
/// Combines `n` items: dst[i] = left[i] op right[i]. `dst` may equal `right`.
typedef void (*reduce_op_t)(const void* left, const void* right, void* dst, size_t n);
/// A node of a completion graph.
typedef void* graph_node_t;
/// Runs a graph node; returns done (completed) or posted (completes later), never retry.
typedef status_t (*graph_node_run_cb_t)(void* value);
/// Frees the value of a graph node.
typedef void (*graph_node_free_cb_t)(void* value);
/// Runs when a graph edge fires, with the status of its source node.
typedef void (*graph_edge_run_cb_t)(status_t status, void* src_value, void* dst_value);

/// Receive from any rank.
const int ANY_SOURCE = -1;
/// Receive any tag.
const tag_t ANY_TAG = ~static_cast<tag_t>(0);

/// The result of a post, or why it must be repeated. The `*_min` and `*_max` values are fences: a
/// category is the open interval between its two fences.
enum class errorcode_t {
  done_min,
  done,          ///< complete; the completion object will not be signalled
  done_backlog,  ///< complete for the caller; the library has not passed it to the network yet
  done_max,
  posted_min,
  posted,          ///< accepted; the completion object will be signalled exactly once
  posted_backlog,  ///< the same, still queued inside the library
  posted_max,
  retry_min,
  retry,           ///< try again; also: progress found nothing
  retry_init,      ///< value of a default-constructed error
  retry_lock,      ///< another thread held a required lock
  retry_nopacket,  ///< the packet pool is empty
  retry_nomem,     ///< a queue to the peer is full, or the peer is not connected yet
  retry_backlog,   ///< earlier operations to that rank are still in the backlog
  retry_max,
  fatal  ///< never returned: fatal errors throw
};

/// The network. `shm` alone is legal, and the default on one host. `ucx` is a name of LCI version 2
/// only: there is no such backend, and asking for it is a backend_error.
enum class attr_backend_t { none, ibv, ofi, ucx, shm };

/// Bits of the attribute `ofi_lock_mode`.
enum attr_net_lock_mode_t {
  LCI_NET_TRYLOCK_SEND = 1,
  LCI_NET_TRYLOCK_RECV = 2,
  LCI_NET_TRYLOCK_POLL = 4,
  LCI_NET_LOCK_MR = 8,
  LCI_NET_LOCK_ALL = 15,
  LCI_NET_TRYLOCK_MAX = 16
};

/// How a rendezvous notifies the receiver that its data has arrived.
enum class attr_rdv_protocol_t { auto_select, write, writeimm };
/// Data structure behind a matching engine.
enum class attr_matching_engine_type_t { queue, map };
/// Kind of a completion object.
enum class attr_comp_type_t { sync, counter, cq, handler, graph, custom };
/// Data structure behind a completion queue. `lcrq`: one queue in the order of the signals, which
/// starts small and grows. `array_atomic`: the same, with room for `cq_default_length` statuses
/// from the start. `per_thread`: 16 queues over which the threads are distributed, for programs in
/// which many threads signal and take at the same time. What one thread signals comes out in that
/// order; between threads there is no order.
enum class attr_cq_type_t { array_atomic, lcrq, per_thread };
/// On-demand paging of the verbs backend.
enum class attr_ibv_odp_strategy_t { none, explicit_odp, implicit_odp };
/// Prefetching for on-demand paging.
enum class attr_ibv_prefetch_strategy_t { none, prefetch, prefetch_write, prefetch_no_fault };
/// The path of GPU data between processes of one machine. `direct`: a copy engine copies from end
/// to end; memory that it cannot access is an error. `staged`: through host memory. `auto_select`:
/// direct where possible, and between processes on one GPU the faster one; else staged.
enum class attr_gpu_path_t { auto_select, direct, staged };
/// Whether the CPU copies small messages from and to GPU memory itself, through gdrcopy.
/// `auto_select`: if gdrcopy is usable. `on`: if it is not usable, the first use of GPU memory
/// throws.
enum class attr_gpu_gdrcopy_t { auto_select, on, off };
/// Who serves the queues of GPU endpoints where no card can (tier T3 of docs/gpu-initiated.md).
/// `off`: nobody, and an endpoint that needs the proxy is a backend_error. `progress`: callers
/// of progress() on the endpoint's device. `thread`: a thread of the library for each device
/// that has GPU endpoints, which makes progress on the device too.
enum class attr_gpu_proxy_t { off, progress, thread };
/// Who executes the work requests of GPU endpoints. `automatic`: the highest tier that is usable.
/// The others are T0 (the GPU writes the card's queues and rings its doorbell), T1 (a processor
/// rings), T2 (a processor forwards the work requests to the card) and T3 (a processor executes
/// them over any backend).
enum class attr_gpu_tier_t { automatic, gpu_direct, cpu_rings, cpu_forwards, proxy };
/// Which lost peers progress() reports. `own`: those with which an operation of the device was
/// under way. `all`: every one.
enum class attr_failure_notice_t { own, all };
/// Thread domains of the verbs backend.
enum class attr_ibv_td_strategy_t { none, all_qp, per_qp };

/// Kind of a raw network completion.
enum class net_opcode_t { SEND, RECV, WRITE, REMOTE_WRITE, READ, ERROR };
/// OUT: send, active message, put. IN: receive, get.
enum class direction_t { OUT, IN };
/// The side of an entry in a matching engine.
enum class matching_entry_type_t : unsigned { send = 0, recv = 1 };
/// Which of (rank, tag) are matched.
enum class matching_policy_t : unsigned {
  none = 0,
  rank_only = 1,
  tag_only = 2,
  rank_tag = 3,
  max = 4
};
/// memory: the buffer may be reused. network: the network reports that the operation is complete.
enum class comp_semantic_t { memory, network };
/// none = select automatically.
enum class broadcast_algorithm_t { none, direct, tree, ring };
/// none = select automatically.
enum class reduce_scatter_algorithm_t { none, direct, tree, ring };
/// none = select automatically.
enum class allreduce_algorithm_t { none, direct, tree, ring };

}  // namespace lci

#endif  // LCI_TYPES_HPP
