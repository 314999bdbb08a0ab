/// @file gpu.hpp
/// Host side of communication that a kernel starts: makes the endpoints, keys and queues that
/// kernels receive by value. device.cuh declares the calls of kernels. Not part of lci.hpp: a
/// program that does not include it pays nothing for it.
///
/// Without a card that kernels can use, a proxy executes the work requests (tier T3, attribute
/// `gpu_proxy`, off by default). Endpoints made with `.gpu(gpu::NO_GPU)` need no GPU: threads of
/// the process make the same calls.
#ifndef LCI_GPU_HPP
#define LCI_GPU_HPP

#include <string>

#include "lci/errors.hpp"
#include "lci/gpu_handles.hpp"
#include "lci/options.hpp"

namespace lci {

/// A work request of a kernel failed, and with it the queue to that peer. progress() on the
/// endpoint's device throws this once per queue; kernels see status::failed.
class LCI_PUBLIC gpu_request_error : public std::runtime_error {
 public:
  /// @param peer      the rank whose queue has ended
  /// @param syndrome  of the first request that failed, as an mlx5 card reports it
  /// @param what      the message
  gpu_request_error(int peer, unsigned syndrome, const std::string& what)
      : std::runtime_error(what), peer_(peer), syndrome_(syndrome) {}
  /// The rank whose queue has ended.
  /// @return the rank
  int peer() const noexcept { return peer_; }
  /// Why: 0x04 local key or bounds, 0x13 remote key or bounds, 0x15 the peer is lost; the others
  /// are in the table of docs/gpu-initiated.md.
  /// @return the syndrome
  unsigned syndrome() const noexcept { return syndrome_; }

 private:
  int peer_;
  unsigned syndrome_;
};

namespace gpu {
/// The GPU that is current in the calling thread; the default, in contrast to NO_GPU.
const int CURRENT_GPU = -2;
}  // namespace gpu

namespace detail {

/// Arguments of alloc_gpu_endpoint.
struct alloc_gpu_endpoint_args {
  device_t device;
  int gpu = gpu::CURRENT_GPU;
  option_t<attr_gpu_proxy_t> proxy;
  option_t<attr_gpu_tier_t> tier;
  uint32_t depth = 1024;
  uint32_t max_inline = 220;
  uint64_t wait_limit_ms = 0;
  uint32_t receives = 1024;
  runtime_t runtime;
};
/// Arguments of free_gpu_endpoint, abort_gpu_endpoint and check_gpu_endpoint.
struct gpu_endpoint_args {
  gpu::endpoint_t* endpoint = nullptr;
  runtime_t runtime;
};
/// Arguments of get_gpu_key.
struct get_gpu_key_args {
  mr_t mr;
  rmr_t rmr;
  gpu::endpoint_t endpoint;
  int rank = gpu::ANY_RANK;
  runtime_t runtime;
};
/// Arguments of alloc_gpu_queue.
struct alloc_gpu_queue_args {
  gpu::endpoint_t endpoint;
  uint32_t capacity = 1024;
  uint32_t message_size = 64;
  runtime_t runtime;
};
/// Arguments of free_gpu_queue and get_gpu_queue_comp.
struct gpu_queue_args {
  gpu::queue_t* queue = nullptr;
  runtime_t runtime;
};

LCI_PUBLIC gpu::endpoint_t alloc_gpu_endpoint(const alloc_gpu_endpoint_args& args);
LCI_PUBLIC void free_gpu_endpoint(const gpu_endpoint_args& args);
LCI_PUBLIC void abort_gpu_endpoint(const gpu_endpoint_args& args);
LCI_PUBLIC void check_gpu_endpoint(const gpu_endpoint_args& args);
LCI_PUBLIC gpu::key_t get_gpu_key(const get_gpu_key_args& args);
LCI_PUBLIC gpu::queue_t alloc_gpu_queue(const alloc_gpu_queue_args& args);
LCI_PUBLIC void free_gpu_queue(const gpu_queue_args& args);
LCI_PUBLIC comp_t get_gpu_queue_comp(const gpu_queue_args& args);

}  // namespace detail

/// Makes an endpoint for the kernels of one GPU, with a queue to each rank. Not collective: a peer
/// needs an endpoint only if its own kernels communicate.
///
/// An endpoint whose device or runtime is freed ends first: posted operations are completed, for at
/// most 5 s, and kernels that wait see status::aborted or bad_endpoint. The memory that kernels
/// read is then never freed.
/// Over a card (tiers T0 to T2) the queues end with the endpoint: no kernel may use it when it, its
/// device or its runtime is freed. The call asks each other rank for the other end of its queue, so
/// it waits for ranks that make no progress. If a rank has ended, an automatically chosen tier over
/// a card is not used.
/// @return  the handle to pass to kernels; end it with free_gpu_endpoint() before the device
/// @throws lci::argument_error  a setting out of range, or no such GPU
/// @throws lci::backend_error   no tier is usable, or not the requested one; the text gives the
/// reason for each, and names the option gpu_proxy
/// @throws lci::peer_failure_error  a tier over a card was requested, and a rank has ended
/// Threads: one at a time, and not in a handler.
class alloc_gpu_endpoint_x
    : public detail::operation<alloc_gpu_endpoint_x, detail::alloc_gpu_endpoint_args,
                               gpu::endpoint_t, &detail::alloc_gpu_endpoint>,
      public detail::runtime_option<alloc_gpu_endpoint_x> {
 public:
  typedef alloc_gpu_endpoint_x&& self_t;  ///< what setters return
  /// The default device of the runtime.
  alloc_gpu_endpoint_x() {}
  /// Takes the device.
  /// @param device  see the setter of its name
  explicit alloc_gpu_endpoint_x(device_t device) { args.device = device; }
  /// Sets the device whose network and progress the endpoint uses. Default: the default device.
  self_t device(device_t value) {
    args.device = value;
    return self();
  }
  /// Sets the GPU, by its CUDA number. gpu::NO_GPU: for threads of the process. Default: the GPU
  /// that is current in this thread.
  self_t gpu(int value) {
    args.gpu = value;
    return self();
  }
  /// Sets who serves the queues where no card can. Default: attribute gpu_proxy of the runtime.
  self_t gpu_proxy(attr_gpu_proxy_t value) {
    args.proxy = value;
    return self();
  }
  /// Sets the tier. Default: attribute gpu_tier of the runtime.
  self_t gpu_tier(attr_gpu_tier_t value) {
    args.tier = value;
    return self();
  }
  /// Sets the length of each queue in blocks of 64 bytes: a power of two, 16 to 32768. Default
  /// 1024.
  self_t depth(uint32_t value) {
    args.depth = value;
    return self();
  }
  /// Sets how many bytes of a put or message may travel in the work request itself: at most 220
  /// (four blocks). Default: 220.
  self_t max_inline(uint32_t value) {
    args.max_inline = value;
    return self();
  }
  /// Sets how many milliseconds a wait of a kernel lasts while nothing changes; then it ends with
  /// status::timed_out, and its queue ends too. 0, the default: no limit.
  self_t wait_limit_ms(uint64_t value) {
    args.wait_limit_ms = value;
    return self();
  }
  /// Sets how many receives kernels may have posted at a time: a power of two. Default: 1024.
  self_t receives(uint32_t value) {
    args.receives = value;
    return self();
  }
};

/// Ends an endpoint after everything that its kernels have posted, and empties the handle. No call
/// of a kernel, or of a thread that acts as one, may be under way on it, waits included: the queues
/// that such a call uses are freed. If some calls may wait forever, call abort_gpu_endpoint()
/// first. Later calls with a copy of the handle return status::bad_endpoint.
/// @throws lci::argument_error  an empty or freed handle
/// A receive of a kernel that no message has matched is cancelled, and its buffer belongs to the
/// program again. The call waits up to 5 s for matched receives and for operations that an abort
/// left under way; a warning reports any that remain. Their memory must then stay until the runtime
/// is freed: a long message that no receive has met is read when one does, however late. The call
/// also waits for host calls of other threads that name the endpoint.
/// Threads: one at a time, and not in a handler.
class free_gpu_endpoint_x : public detail::operation<free_gpu_endpoint_x, detail::gpu_endpoint_args,
                                                     void, &detail::free_gpu_endpoint>,
                            public detail::runtime_option<free_gpu_endpoint_x> {
 public:
  /// Takes the handle to empty.
  /// @param endpoint  the handle; empty afterwards
  explicit free_gpu_endpoint_x(gpu::endpoint_t* endpoint) { args.endpoint = endpoint; }
};

/// Ends every wait of kernels on an endpoint with status::aborted, within milliseconds, and ends
/// all its queues. The endpoint must still be freed.
/// @throws lci::argument_error  an empty or freed handle
/// Threads: any.
class abort_gpu_endpoint_x
    : public detail::operation<abort_gpu_endpoint_x, detail::gpu_endpoint_args, void,
                               &detail::abort_gpu_endpoint>,
      public detail::runtime_option<abort_gpu_endpoint_x> {
 public:
  /// Takes the endpoint.
  /// @param endpoint  a handle, which stays as it is
  explicit abort_gpu_endpoint_x(gpu::endpoint_t* endpoint) { args.endpoint = endpoint; }
};

/// Checks that a kernel that this thread launches now may use an endpoint: that the endpoint's GPU
/// is current in this thread. A kernel of another GPU can follow none of the handle's pointers and
/// ends in a driver error that names no cause. Costs two queries to the driver and starts nothing.
/// Endpoints for threads of the process (gpu::NO_GPU) always pass.
/// @throws lci::argument_error  an empty or freed handle, or another GPU is current, or none
/// Threads: any.
class check_gpu_endpoint_x
    : public detail::operation<check_gpu_endpoint_x, detail::gpu_endpoint_args, void,
                               &detail::check_gpu_endpoint>,
      public detail::runtime_option<check_gpu_endpoint_x> {
 public:
  /// Takes the endpoint.
  /// @param endpoint  a handle, which stays as it is
  explicit check_gpu_endpoint_x(gpu::endpoint_t* endpoint) { args.endpoint = endpoint; }
};

/// A key for kernels, of a region of this process or of a peer.
///
/// A key of a peer's region whose rank is given carries the region's length, and its mapping if the
/// endpoint's GPU can access that memory directly. The call may then take milliseconds, and makes
/// progress until the peer is connected. With an endpoint over a card it waits until the peer,
/// which must make progress, has sent the number by which its card knows the region. Without a rank
/// the key carries neither, and the owner's table is queried at each use. Deregistering the region
/// ends the key; so does free_gpu_endpoint() if an endpoint was given. lci keeps its record of a
/// peer's region until that endpoint, or without one the runtime, is freed, even if the peer has
/// deregistered the region: pass the endpoint if peers register memory again and again.
/// @return  the key
/// @throws lci::argument_error  no region, a damaged one, no such rank, or a region or runtime
/// other than the endpoint's
/// @throws lci::peer_failure_error  the peer is lost
/// Threads: any.
class get_gpu_key_x : public detail::operation<get_gpu_key_x, detail::get_gpu_key_args, gpu::key_t,
                                               &detail::get_gpu_key>,
                      public detail::runtime_option<get_gpu_key_x> {
 public:
  /// Takes a region of this process.
  /// @param mr  from register_memory()
  explicit get_gpu_key_x(mr_t mr) { args.mr = mr; }
  /// Takes a region of a peer.
  /// @param rmr  from the peer's get_rmr()
  explicit get_gpu_key_x(rmr_t rmr) { args.rmr = rmr; }
  /// Sets the endpoint whose kernels should access the memory directly. Default: none, so that
  /// every access takes a work request.
  get_gpu_key_x&& endpoint(gpu::endpoint_t value) {
    args.endpoint = value;
    return self();
  }
  /// Sets the rank that owns the region. Default: for a peer's region gpu::ANY_RANK.
  get_gpu_key_x&& rank(int value) {
    args.rank = value;
    return self();
  }
};

/// Makes a queue of active messages that kernels poll. Register its completion object,
/// get_gpu_queue_comp(), and tell peers the number: hosts and kernels send to it as to any other.
/// Messages that find it full wait in host memory, in order.
/// @return  the handle to pass to kernels
/// @throws lci::argument_error  a setting out of range, or an empty or freed endpoint
/// @throws lci::backend_error   no GPU memory is left; std::bad_alloc: no host memory is left
/// Threads: one at a time.
class alloc_gpu_queue_x : public detail::operation<alloc_gpu_queue_x, detail::alloc_gpu_queue_args,
                                                   gpu::queue_t, &detail::alloc_gpu_queue>,
                          public detail::runtime_option<alloc_gpu_queue_x> {
 public:
  /// Takes the endpoint whose kernels poll.
  /// @param endpoint  an endpoint that was not freed
  explicit alloc_gpu_queue_x(gpu::endpoint_t endpoint) { args.endpoint = endpoint; }
  /// Sets how many messages it holds: a power of two. Default: 1024.
  alloc_gpu_queue_x&& capacity(uint32_t value) {
    args.capacity = value;
    return self();
  }
  /// Sets the size of its largest message in bytes, at most 65536; a longer one is dropped, and
  /// progress() throws truncation_error. Default: 64.
  alloc_gpu_queue_x&& message_size(uint32_t value) {
    args.message_size = value;
    return self();
  }
};

/// Frees a queue and its completion object with the messages in it, and empties the handle. No
/// kernel may be polling it; later calls with a copy return status::bad_endpoint. Memory of a GPU
/// is freed too; the driver may wait for running kernels.
/// @throws lci::argument_error  an empty or freed handle
/// Threads: one at a time.
class free_gpu_queue_x : public detail::operation<free_gpu_queue_x, detail::gpu_queue_args, void,
                                                  &detail::free_gpu_queue>,
                         public detail::runtime_option<free_gpu_queue_x> {
 public:
  /// Takes the handle to empty.
  /// @param queue  the handle; empty afterwards
  explicit free_gpu_queue_x(gpu::queue_t* queue) { args.queue = queue; }
};

/// The completion object of a queue, for register_rcomp(). It belongs to the queue.
/// @return  the completion object
/// @throws lci::argument_error  an empty or freed handle
/// Threads: any.
class get_gpu_queue_comp_x : public detail::operation<get_gpu_queue_comp_x, detail::gpu_queue_args,
                                                      comp_t, &detail::get_gpu_queue_comp>,
                             public detail::runtime_option<get_gpu_queue_comp_x> {
 public:
  /// Takes the queue.
  /// @param queue  a handle, which stays as it is
  explicit get_gpu_queue_comp_x(gpu::queue_t* queue) { args.queue = queue; }
};

/// alloc_gpu_endpoint_x without options.
/// @return the endpoint; free it with free_gpu_endpoint()
inline gpu::endpoint_t alloc_gpu_endpoint(device_t device) {
  return alloc_gpu_endpoint_x(device).call();
}
/// free_gpu_endpoint_x without options.
/// @param endpoint  the handle; empty afterwards
inline void free_gpu_endpoint(gpu::endpoint_t* endpoint) { free_gpu_endpoint_x(endpoint).call(); }
/// abort_gpu_endpoint_x without options.
/// @param endpoint  an endpoint that was not freed
inline void abort_gpu_endpoint(gpu::endpoint_t endpoint) { abort_gpu_endpoint_x(&endpoint).call(); }
/// check_gpu_endpoint_x without options.
/// @param endpoint  an endpoint that was not freed
inline void check_gpu_endpoint(gpu::endpoint_t endpoint) { check_gpu_endpoint_x(&endpoint).call(); }
/// get_gpu_key_x without options.
/// @param mr  from register_memory()
/// @return the key
inline gpu::key_t get_gpu_key(mr_t mr) { return get_gpu_key_x(mr).call(); }
/// get_gpu_key_x without options.
/// @param rmr  from the peer's get_rmr()
/// @return the key
inline gpu::key_t get_gpu_key(rmr_t rmr) { return get_gpu_key_x(rmr).call(); }
/// alloc_gpu_queue_x without options.
/// @param endpoint  an endpoint that was not freed
/// @return the queue; free it with free_gpu_queue()
inline gpu::queue_t alloc_gpu_queue(gpu::endpoint_t endpoint) {
  return alloc_gpu_queue_x(endpoint).call();
}
/// free_gpu_queue_x without options.
/// @param queue  the handle; empty afterwards
inline void free_gpu_queue(gpu::queue_t* queue) { free_gpu_queue_x(queue).call(); }
/// get_gpu_queue_comp_x without options.
/// @param queue  a queue that was not freed
/// @return the completion object
inline comp_t get_gpu_queue_comp(gpu::queue_t queue) { return get_gpu_queue_comp_x(&queue).call(); }

}  // namespace lci

#endif  // LCI_GPU_HPP
