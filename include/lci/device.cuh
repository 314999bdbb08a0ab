/// @file device.cuh
/// Communication that a kernel starts: the calls of kernels, with an endpoint that the host made
/// (gpu.hpp). C++17, for nvcc, and for host compilers without CUDA: threads of the process make the
/// same calls with an endpoint made for them (gpu::NO_GPU).
///
/// Every call is a template on the scope that makes it together: `thread` (the default), `warp` or
/// `block`, as in `put<block>(ep, rank, to, from, size)`, and returns a status, 0 for success. The
/// calls and their rules are in lci/gpu:
///
/// - remote.hpp: put, put_value, put_signal, signal, get. Puts of any size, values too, are not
///   ordered among each other without fence(). A signal by request comes after all earlier
///   requests. A signal to a mapped word is a store: if data went by request, call fence() first
/// - values.hpp: get_value
/// - atomics.hpp: fetch, set, fetch_add, add, compare_swap, swap, fetch_and, and_, fetch_or, or_,
///   fetch_xor, xor_
/// - order.hpp: quiet, fence, syndrome_of, rank, ranks
/// - barrier.hpp: barrier, barrier_words
/// - wait.hpp: wait_until, wait_until_any, wait_until_all, test
/// - messages.hpp: send, send_value, am, am_value, recv, wait_receive, test_receive. Operations
///   after a message may be seen before it
/// - queue.hpp: poll, wait
#ifndef LCI_DEVICE_CUH
#define LCI_DEVICE_CUH

#include "lci/gpu/atomics.hpp"
#include "lci/gpu/barrier.hpp"
#include "lci/gpu/messages.hpp"
#include "lci/gpu/order.hpp"
#include "lci/gpu/queue.hpp"
#include "lci/gpu/remote.hpp"
#include "lci/gpu/values.hpp"
#include "lci/gpu/wait.hpp"

#endif  // LCI_DEVICE_CUH
