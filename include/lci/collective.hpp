/// @file collective.hpp
/// Collective operations. Every rank calls the collectives of one matching engine in the same
/// order.
///
/// Without a completion object a collective blocks and makes progress on the device. With one it
/// returns after it has started, needs progress(), and signals the object once: done, rank -1, null
/// user context. Buffers must stay valid until then. Host memory only. Reduction operators must be
/// associative and commutative; the order of reduction is unspecified. Threads: one at a time per
/// engine. Errors: lci::argument_error for a root outside 0..n-1 or a null buffer with a size;
/// lci::peer_failure_error if the device has already lost a peer. A blocking call also throws
/// lci::peer_failure_error for a peer lost meanwhile, and what the operator or a step throws; both
/// end the call at once, and the library may read and write the buffers until the runtime ends.
/// Other exceptions of progress() leave the call at its end. In debug builds, and with
/// `LCI_CHECK_COLLECTIVES=1` on all ranks, every rank throws lci::argument_error if ranks call
/// different collectives, or the same one with different sizes or roots. In other builds, or if
/// that variable is 0, such ranks may wait forever.
#ifndef LCI_COLLECTIVE_HPP
#define LCI_COLLECTIVE_HPP

#include "lci/options.hpp"

namespace lci {
namespace detail {

/// Arguments of all collectives.
struct collective_args {
  const void* sendbuf = nullptr;
  void* recvbuf = nullptr;  // the only buffer of broadcast
  size_t count = 0;         // items; bytes for broadcast, allgather and alltoall
  size_t item_size = 1;
  reduce_op_t op = nullptr;
  int root = 0;
  option_t<int> ring_nsteps;
  runtime_t runtime;
  device_t device;
  endpoint_t endpoint;
  matching_engine_t matching_engine;
  comp_semantic_t comp_semantic = comp_semantic_t::memory;
  comp_t comp;
  broadcast_algorithm_t broadcast_algorithm = broadcast_algorithm_t::none;
  allreduce_algorithm_t allreduce_algorithm = allreduce_algorithm_t::none;
  reduce_scatter_algorithm_t reduce_scatter_algorithm = reduce_scatter_algorithm_t::none;
};

LCI_PUBLIC void barrier(const collective_args& args);
LCI_PUBLIC void broadcast(const collective_args& args);
LCI_PUBLIC void reduce(const collective_args& args);
LCI_PUBLIC void allreduce(const collective_args& args);
LCI_PUBLIC void reduce_scatter(const collective_args& args);
LCI_PUBLIC void allgather(const collective_args& args);
LCI_PUBLIC void alltoall(const collective_args& args);

/// The default engine of collectives, which keeps their messages separate from the program's.
LCI_PUBLIC matching_engine_t get_collective_engine(runtime_t runtime);
/// The runtime to use: the given one, else that of the device or endpoint, else the global default
/// runtime.
LCI_PUBLIC runtime_t runtime_of(runtime_t runtime, device_t device, endpoint_t endpoint);
/// Number of collectives that this rank has started on the engine so far; each call adds one.
LCI_PUBLIC uint64_t next_collective_sequence(matching_engine_t matching_engine);
/// A nonblocking collective under way, which may never complete if a peer is lost. The end of the
/// runtime ends those still listed, after everything that could signal them. Threads: any.
struct unfinished_t;
/// Description for messages.
struct unfinished_text_t {
  const char* name = "";            // a literal
  uint64_t number = 0;              // among those of its engine, from 0
  const void* engine = nullptr;     // behind its matching_engine_t
  const void* object = nullptr;     // signalled at its end
  const void* transfers = nullptr;  // the object of its transfers
};
/// Neither throws. describe() may run in a signal handler.
struct unfinished_calls_t {
  void (*end)(unfinished_t* self);
  unfinished_text_t (*describe)(const unfinished_t* self);
};
struct unfinished_t {
  const unfinished_calls_t* calls = nullptr;
  unfinished_t* before = nullptr;
  unfinished_t* after = nullptr;
};
LCI_PUBLIC void list_unfinished(runtime_t runtime, unfinished_t* one);
LCI_PUBLIC void unlist_unfinished(runtime_t runtime, unfinished_t* one);
/// Throws argument_error unless `size` bytes can be at `buffer`.
LCI_PUBLIC void check_memory(const char* operation, const char* argument, const void* buffer,
                             size_t size);

/// Setters of all collectives.
template <class Op, void (*Run)(const collective_args&)>
class collective_operation : public operation<Op, collective_args, void, Run>,
                             public runtime_option<Op>,
                             public device_option<Op>,
                             public endpoint_option<Op>,
                             public matching_engine_option<Op> {
 protected:
  collective_operation() {}
  collective_operation(const void* sendbuf, void* recvbuf, size_t count, size_t item_size) {
    this->args.sendbuf = sendbuf;
    this->args.recvbuf = recvbuf;
    this->args.count = count;
    this->args.item_size = item_size;
  }
};

/// Setters of collectives with a send and a receive buffer.
template <class Op>
struct two_buffer_options {
  /// Sets the contribution of this rank.
  Op&& sendbuf(const void* value) {
    Op& self = static_cast<Op&>(*this);
    self.args.sendbuf = value;
    return std::move(self);
  }
  /// Sets the buffer for the result.
  Op&& recvbuf(void* value) {
    Op& self = static_cast<Op&>(*this);
    self.args.recvbuf = value;
    return std::move(self);
  }
};

/// Setters of collectives that combine items.
template <class Op>
struct reduction_options : two_buffer_options<Op> {
  /// Sets the bytes of one item. Default: none, the constructor takes it.
  Op&& item_size(size_t value) {
    Op& self = static_cast<Op&>(*this);
    self.args.item_size = value;
    return std::move(self);
  }
  /// Sets the operator. Default: none, the constructor takes it.
  Op&& op(reduce_op_t value) {
    Op& self = static_cast<Op&>(*this);
    self.args.op = value;
    return std::move(self);
  }
};

/// Setter of algorithms that can use a ring.
template <class Op>
struct ring_option {
  /// Sets the number of steps into which a ring algorithm divides the data, 1 to 2^23, or 0 for the
  /// default. Default: number of ranks - 1, at least 1.
  Op&& ring_nsteps(int value) {
    Op& self = static_cast<Op&>(*this);
    self.args.ring_nsteps = option_t<int>(value);
    return std::move(self);
  }
};

}  // namespace detail

/// Returns when all ranks have called it. With comp_semantic_t::network its own messages have also
/// left.
class barrier_x : public detail::collective_operation<barrier_x, &detail::barrier>,
                  public detail::comp_semantic_option<barrier_x>,
                  public detail::comp_option<barrier_x> {};

/// Copies `size` bytes from rank `root` to all ranks.
class broadcast_x : public detail::collective_operation<broadcast_x, &detail::broadcast>,
                    public detail::comp_option<broadcast_x>,
                    public detail::ring_option<broadcast_x> {
 public:
  /// Positional arguments, see the setters of their names.
  broadcast_x(void* buffer, size_t size, int root)
      : collective_operation(nullptr, buffer, size, 1) {
    args.root = root;
  }
  /// Sets the buffer: read at the root, written elsewhere.
  broadcast_x&& buffer(void* value) {
    args.recvbuf = value;
    return self();
  }
  /// Sets the size in bytes.
  broadcast_x&& size(size_t value) {
    args.count = value;
    return self();
  }
  /// Sets the rank that has the data.
  broadcast_x&& root(int value) {
    args.root = value;
    return self();
  }
  /// Sets the algorithm. Default: selected by size and number of ranks.
  broadcast_x&& algorithm(broadcast_algorithm_t value) {
    args.broadcast_algorithm = value;
    return self();
  }
};

/// Combines `count` items of all ranks into `recvbuf` of rank `root`; there `sendbuf` may be
/// `recvbuf`.
class reduce_x : public detail::collective_operation<reduce_x, &detail::reduce>,
                 public detail::reduction_options<reduce_x> {
 public:
  /// Positional arguments, see the setters of their names.
  reduce_x(const void* sendbuf, void* recvbuf, size_t count, size_t item_size, reduce_op_t op_,
           int root)
      : collective_operation(sendbuf, recvbuf, count, item_size) {
    args.op = op_;
    args.root = root;
  }
  /// Sets the number of items.
  reduce_x&& count(size_t value) {
    args.count = value;
    return self();
  }
  /// Sets the rank that receives the result.
  reduce_x&& root(int value) {
    args.root = value;
    return self();
  }
};

/// Combines `count` items of all ranks into `recvbuf` of every rank; `sendbuf` may be `recvbuf`.
class allreduce_x : public detail::collective_operation<allreduce_x, &detail::allreduce>,
                    public detail::reduction_options<allreduce_x>,
                    public detail::comp_option<allreduce_x>,
                    public detail::ring_option<allreduce_x> {
 public:
  /// Positional arguments, see the setters of their names.
  allreduce_x(const void* sendbuf, void* recvbuf, size_t count, size_t item_size, reduce_op_t op_)
      : collective_operation(sendbuf, recvbuf, count, item_size) {
    args.op = op_;
  }
  /// Sets the number of items.
  allreduce_x&& count(size_t value) {
    args.count = value;
    return self();
  }
  /// Sets the algorithm. Default: selected by size and number of ranks.
  allreduce_x&& algorithm(allreduce_algorithm_t value) {
    args.allreduce_algorithm = value;
    return self();
  }
};

/// Combines n blocks of `recvcount` items of all ranks; block i of the result goes to rank i.
/// `recvbuf` may be this rank's block of `sendbuf`.
class reduce_scatter_x
    : public detail::collective_operation<reduce_scatter_x, &detail::reduce_scatter>,
      public detail::reduction_options<reduce_scatter_x>,
      public detail::comp_option<reduce_scatter_x>,
      public detail::ring_option<reduce_scatter_x> {
 public:
  /// Positional arguments, see the setters of their names.
  reduce_scatter_x(const void* sendbuf, void* recvbuf, size_t recvcount, size_t item_size,
                   reduce_op_t op_)
      : collective_operation(sendbuf, recvbuf, recvcount, item_size) {
    args.op = op_;
  }
  /// Sets the number of items that each rank receives.
  reduce_scatter_x&& recvcount(size_t value) {
    args.count = value;
    return self();
  }
  /// Sets the algorithm. Default: selected by size and number of ranks.
  reduce_scatter_x&& algorithm(reduce_scatter_algorithm_t value) {
    args.reduce_scatter_algorithm = value;
    return self();
  }
};

/// Gathers `size` bytes from every rank on every rank, in rank order; may be in place.
class allgather_x : public detail::collective_operation<allgather_x, &detail::allgather>,
                    public detail::two_buffer_options<allgather_x> {
 public:
  /// Positional arguments, see the setters of their names.
  allgather_x(const void* sendbuf, void* recvbuf, size_t size)
      : collective_operation(sendbuf, recvbuf, size, 1) {}
  /// Sets the bytes per rank.
  allgather_x&& size(size_t value) {
    args.count = value;
    return self();
  }
};

/// Sends block i of `sendbuf`, `size` bytes, to rank i; block i of `recvbuf` comes from rank i. Not
/// in place.
class alltoall_x : public detail::collective_operation<alltoall_x, &detail::alltoall>,
                   public detail::two_buffer_options<alltoall_x>,
                   public detail::comp_option<alltoall_x>,
                   public detail::comp_semantic_option<alltoall_x> {
 public:
  /// Positional arguments, see the setters of their names.
  alltoall_x(const void* sendbuf, void* recvbuf, size_t size)
      : collective_operation(sendbuf, recvbuf, size, 1) {}
  /// Sets the bytes per rank.
  alltoall_x&& size(size_t value) {
    args.count = value;
    return self();
  }
};

/// barrier_x without options.
inline void barrier() { barrier_x().call(); }
/// broadcast_x without options.
inline void broadcast(void* buffer, size_t size, int root) {
  broadcast_x(buffer, size, root).call();
}
/// reduce_x without options.
inline void reduce(const void* sendbuf, void* recvbuf, size_t count, size_t item_size,
                   reduce_op_t op, int root) {
  reduce_x(sendbuf, recvbuf, count, item_size, op, root).call();
}
/// allreduce_x without options.
inline void allreduce(const void* sendbuf, void* recvbuf, size_t count, size_t item_size,
                      reduce_op_t op) {
  allreduce_x(sendbuf, recvbuf, count, item_size, op).call();
}
/// reduce_scatter_x without options.
inline void reduce_scatter(const void* sendbuf, void* recvbuf, size_t recvcount, size_t item_size,
                           reduce_op_t op) {
  reduce_scatter_x(sendbuf, recvbuf, recvcount, item_size, op).call();
}
/// allgather_x without options.
inline void allgather(const void* sendbuf, void* recvbuf, size_t size) {
  allgather_x(sendbuf, recvbuf, size).call();
}
/// alltoall_x without options.
inline void alltoall(const void* sendbuf, void* recvbuf, size_t size) {
  alltoall_x(sendbuf, recvbuf, size).call();
}

/// Name of an algorithm.
/// @param algorithm  the algorithm
/// @return such as "tree"; never freed
LCI_PUBLIC const char* get_broadcast_algorithm_str(broadcast_algorithm_t algorithm);
/// Name of an algorithm.
/// @param algorithm  the algorithm
/// @return such as "tree"; never freed
LCI_PUBLIC const char* get_reduce_scatter_algorithm_str(reduce_scatter_algorithm_t algorithm);
/// Name of an algorithm.
/// @param algorithm  the algorithm
/// @return such as "tree"; never freed
LCI_PUBLIC const char* get_reduce_scatter_algorithm_str(broadcast_algorithm_t algorithm);
/// Name of an algorithm.
/// @param algorithm  the algorithm
/// @return such as "tree"; never freed
LCI_PUBLIC const char* get_allreduce_algorithm_str(allreduce_algorithm_t algorithm);
/// Name of an algorithm.
/// @param algorithm  the algorithm
/// @return such as "tree"; never freed
LCI_PUBLIC const char* get_allreduce_algorithm_str(broadcast_algorithm_t algorithm);

}  // namespace lci

#endif  // LCI_COLLECTIVE_HPP
