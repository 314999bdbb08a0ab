/// @file net.hpp
/// Raw access to the network, for tools. Do not combine with progress() on one device. Create the
/// runtime with `alloc_default_packet_pool(false)`, so that the library posts no receives.
///
/// A raw message looks like any other on its way. A round of progress on the device to which it is
/// sent takes it for a message of lci's protocols, and drops it with a warning or worse. Rounds of
/// progress are made by blocking calls on that device (collectives, sync_wait(), COMP_NULL), by
/// free_device() and, while they wait for other ranks, by alloc_device(), alloc_net_context() and
/// alloc_runtime() on each device that the program has used otherwise than by these calls. So use a
/// device of its own, for these calls only.
///
/// The short forms (trailing `s`) take at most `max_inject_size` bytes, return done, and still
/// produce an entry in net_poll_cq(). Sends from host memory have any size; see net_post_send_x. A
/// short put that is not ordered yet returns posted, but its buffer may be reused. The other forms
/// return posted. Retry: nothing happened. Threads: any, at the same time. All throw
/// lci::argument_error for a rank outside 0..n-1, a null buffer with a size, or a size over the
/// limit; and lci::peer_failure_error for a rank that has left or failed.
#ifndef LCI_NET_HPP
#define LCI_NET_HPP

#include "lci/options.hpp"

namespace lci {

/// One raw network completion.
struct net_status_t {
  net_opcode_t opcode = net_opcode_t::ERROR;  ///< what completed
  int rank = -1;                              ///< the peer, if known
  void* user_context = nullptr;               ///< the poster's context; null for REMOTE_WRITE
  size_t length = 0;                          ///< bytes received
  net_imm_data_t imm_data = 0;                ///< immediate data received
};

namespace detail {

/// Arguments of net_poll_cq.
struct net_poll_cq_args {
  size_t max_polls = 0;
  net_status_t* statuses = nullptr;
  runtime_t runtime;
  device_t device;
};
/// Arguments of all raw posts.
struct net_post_args {
  int rank = -1;
  void* buffer = nullptr;
  size_t size = 0;
  mr_t mr;
  uint64_t offset = 0;
  rmr_t rmr;
  net_imm_data_t imm_data = 0;
  runtime_t runtime;
  device_t device;
  endpoint_t endpoint;
  void* user_context = nullptr;
};

LCI_PUBLIC size_t net_poll_cq(const net_poll_cq_args& args);
LCI_PUBLIC error_t net_post_recv(const net_post_args& args);
LCI_PUBLIC error_t net_post_sends(const net_post_args& args);
LCI_PUBLIC error_t net_post_send(const net_post_args& args);
LCI_PUBLIC error_t net_post_puts(const net_post_args& args);
LCI_PUBLIC error_t net_post_put(const net_post_args& args);
LCI_PUBLIC error_t net_post_putImms(const net_post_args& args);
LCI_PUBLIC error_t net_post_putImm(const net_post_args& args);
LCI_PUBLIC error_t net_post_get(const net_post_args& args);

/// Setters of all raw posts.
template <class Op, error_t (*Run)(const net_post_args&)>
class net_operation : public operation<Op, net_post_args, error_t, Run>,
                      public runtime_option<Op>,
                      public device_option<Op>,
                      public user_context_option<Op> {
 public:
  /// Sets the local buffer.
  Op&& buffer(void* value) {
    this->args.buffer = value;
    return this->self();
  }
  /// Sets the size in bytes.
  Op&& size(size_t value) {
    this->args.size = value;
    return this->self();
  }

 protected:
  net_operation(void* buffer, size_t size) {
    this->args.buffer = buffer;
    this->args.size = size;
  }
};

/// Setters of raw posts to a peer.
template <class Op, error_t (*Run)(const net_post_args&)>
class net_out_operation : public net_operation<Op, Run>, public endpoint_option<Op> {
 public:
  /// Sets the peer.
  Op&& rank(int value) {
    this->args.rank = value;
    return this->self();
  }

 protected:
  net_out_operation(int rank, void* buffer, size_t size) : net_operation<Op, Run>(buffer, size) {
    this->args.rank = rank;
  }
};

/// Setters of raw posts on a peer's memory.
template <class Op, error_t (*Run)(const net_post_args&)>
class net_rma_operation : public net_out_operation<Op, Run> {
 public:
  /// Sets the offset in bytes from `rmr.base`.
  Op&& offset(uint64_t value) {
    this->args.offset = value;
    return this->self();
  }
  /// Sets the peer's region.
  Op&& rmr(rmr_t value) {
    this->args.rmr = value;
    return this->self();
  }

 protected:
  net_rma_operation(int rank, void* buffer, size_t size, uint64_t offset, rmr_t rmr)
      : net_out_operation<Op, Run>(rank, buffer, size) {
    this->args.offset = offset;
    this->args.rmr = rmr;
  }
};

/// Setter of the local region.
template <class Op>
struct net_mr_option {
  /// Sets the region that contains the local buffer.
  Op&& mr(mr_t value) {
    Op& op = static_cast<Op&>(*this);
    op.args.mr = value;
    return std::move(op);
  }
};

/// Setter of immediate data.
template <class Op>
struct net_imm_option {
  /// Sets the 32 bits of immediate data. Default: 0.
  Op&& imm_data(net_imm_data_t value) {
    Op& op = static_cast<Op&>(*this);
    op.args.imm_data = value;
    return std::move(op);
  }
};

}  // namespace detail

/// Takes up to `max_polls` (1..LCI_BACKEND_MAX_POLLS) completions; `statuses` may be null. A
/// failure is an entry with opcode ERROR.
/// @return  the number of entries; 0 if nothing has completed
class net_poll_cq_x : public detail::operation<net_poll_cq_x, detail::net_poll_cq_args, size_t,
                                               &detail::net_poll_cq>,
                      public detail::runtime_option<net_poll_cq_x>,
                      public detail::device_option<net_poll_cq_x> {
 public:
  /// Positional arguments, see the setters of their names.
  net_poll_cq_x(size_t max_polls, net_status_t* statuses) {
    args.max_polls = max_polls;
    args.statuses = statuses;
  }
  /// Sets the maximum number of entries to take.
  net_poll_cq_x&& max_polls(size_t value) {
    args.max_polls = value;
    return self();
  }
  /// Sets the buffer for the entries.
  net_poll_cq_x&& statuses(net_status_t* value) {
    args.statuses = value;
    return self();
  }
};

/// Posts a receive buffer, which must be registered, to the device.
/// @return  posted: its entry gives the number of bytes and the sender
class net_post_recv_x : public detail::net_operation<net_post_recv_x, &detail::net_post_recv>,
                        public detail::net_mr_option<net_post_recv_x> {
 public:
  /// Positional arguments, see the setters of their names.
  net_post_recv_x(void* buffer, size_t size, mr_t mr) : net_operation(buffer, size) {
    args.mr = mr;
  }
};

/// Sends a short message.
/// @return  done, or retry if the queue is full
class net_post_sends_x
    : public detail::net_out_operation<net_post_sends_x, &detail::net_post_sends>,
      public detail::net_imm_option<net_post_sends_x> {
 public:
  /// Positional arguments, see the setters of their names.
  net_post_sends_x(int rank, void* buffer, size_t size) : net_out_operation(rank, buffer, size) {}
};

/// Sends from a registered buffer. A message that is too long for the network (of 8256 bytes or
/// more over verbs and libfabric, of 64 KiB or more over shared memory) is copied and goes in
/// pieces: net_poll_cq() sends them, so the sender polls until its entry; until then further sends
/// to that rank return retry. It throws lci::argument_error, which names the limit, if it is in GPU
/// memory. One that is longer than its receive yields an ERROR entry there.
/// @return  posted: the network owns the buffer until its entry; or retry if the queue is full
class net_post_send_x : public detail::net_out_operation<net_post_send_x, &detail::net_post_send>,
                        public detail::net_mr_option<net_post_send_x>,
                        public detail::net_imm_option<net_post_send_x> {
 public:
  /// Positional arguments, see the setters of their names.
  net_post_send_x(int rank, void* buffer, size_t size, mr_t mr)
      : net_out_operation(rank, buffer, size) {
    args.mr = mr;
  }
};

/// Writes a few bytes to a peer's memory.
/// @return  done, or posted if it is not ordered yet: the buffer may be reused after either; or
/// retry if the queue is full
class net_post_puts_x : public detail::net_rma_operation<net_post_puts_x, &detail::net_post_puts> {
 public:
  /// Positional arguments, see the setters of their names.
  net_post_puts_x(int rank, void* buffer, size_t size, uint64_t offset, rmr_t rmr)
      : net_rma_operation(rank, buffer, size, offset, rmr) {}
};

/// Writes a registered buffer to a peer's memory.
/// @return  posted: the network owns the buffer until its entry; or retry if the queue is full
class net_post_put_x : public detail::net_rma_operation<net_post_put_x, &detail::net_post_put>,
                       public detail::net_mr_option<net_post_put_x> {
 public:
  /// Positional arguments, see the setters of their names.
  net_post_put_x(int rank, void* buffer, size_t size, mr_t mr, uint64_t offset, rmr_t rmr)
      : net_rma_operation(rank, buffer, size, offset, rmr) {
    args.mr = mr;
  }
};

/// Writes a few bytes to a peer's memory and reports REMOTE_WRITE there.
/// @return  done, or posted if it is not ordered yet: the buffer may be reused after either; or
/// retry if the queue is full
class net_post_putImms_x
    : public detail::net_rma_operation<net_post_putImms_x, &detail::net_post_putImms>,
      public detail::net_imm_option<net_post_putImms_x> {
 public:
  /// Positional arguments, see the setters of their names.
  net_post_putImms_x(int rank, void* buffer, size_t size, uint64_t offset, rmr_t rmr)
      : net_rma_operation(rank, buffer, size, offset, rmr) {}
};

/// Writes a registered buffer to a peer's memory and reports REMOTE_WRITE there.
/// @return  posted: the network owns the buffer until its entry; or retry if the queue is full
class net_post_putImm_x
    : public detail::net_rma_operation<net_post_putImm_x, &detail::net_post_putImm>,
      public detail::net_mr_option<net_post_putImm_x>,
      public detail::net_imm_option<net_post_putImm_x> {
 public:
  /// Positional arguments, see the setters of their names.
  net_post_putImm_x(int rank, void* buffer, size_t size, mr_t mr, uint64_t offset, rmr_t rmr)
      : net_rma_operation(rank, buffer, size, offset, rmr) {
    args.mr = mr;
  }
};

/// Reads a peer's memory into a registered buffer.
/// @return  posted: the data has arrived when its entry appears; or retry if the queue is full
class net_post_get_x : public detail::net_rma_operation<net_post_get_x, &detail::net_post_get>,
                       public detail::net_mr_option<net_post_get_x> {
 public:
  /// Positional arguments, see the setters of their names.
  net_post_get_x(int rank, void* buffer, size_t size, mr_t mr, uint64_t offset, rmr_t rmr)
      : net_rma_operation(rank, buffer, size, offset, rmr) {
    args.mr = mr;
  }
};

/// net_poll_cq_x without options.
inline size_t net_poll_cq(size_t max_polls, net_status_t* statuses) {
  return net_poll_cq_x(max_polls, statuses).call();
}
/// net_post_recv_x without options.
inline error_t net_post_recv(void* buffer, size_t size, mr_t mr) {
  return net_post_recv_x(buffer, size, mr).call();
}
/// net_post_sends_x without options.
inline error_t net_post_sends(int rank, void* buffer, size_t size) {
  return net_post_sends_x(rank, buffer, size).call();
}
/// net_post_send_x without options.
inline error_t net_post_send(int rank, void* buffer, size_t size, mr_t mr) {
  return net_post_send_x(rank, buffer, size, mr).call();
}
/// net_post_puts_x without options.
inline error_t net_post_puts(int rank, void* buffer, size_t size, uint64_t offset, rmr_t rmr) {
  return net_post_puts_x(rank, buffer, size, offset, rmr).call();
}
/// net_post_put_x without options.
inline error_t net_post_put(int rank, void* buffer, size_t size, mr_t mr, uint64_t offset,
                            rmr_t rmr) {
  return net_post_put_x(rank, buffer, size, mr, offset, rmr).call();
}
/// net_post_putImms_x without options.
inline error_t net_post_putImms(int rank, void* buffer, size_t size, uint64_t offset, rmr_t rmr) {
  return net_post_putImms_x(rank, buffer, size, offset, rmr).call();
}
/// net_post_putImm_x without options.
inline error_t net_post_putImm(int rank, void* buffer, size_t size, mr_t mr, uint64_t offset,
                               rmr_t rmr) {
  return net_post_putImm_x(rank, buffer, size, mr, offset, rmr).call();
}
/// net_post_get_x without options.
inline error_t net_post_get(int rank, void* buffer, size_t size, mr_t mr, uint64_t offset,
                            rmr_t rmr) {
  return net_post_get_x(rank, buffer, size, mr, offset, rmr).call();
}

/// Name of a raw network event.
/// @param opcode  the event
/// @return such as "SEND"; never freed
LCI_PUBLIC const char* get_net_opcode_str(net_opcode_t opcode);

}  // namespace lci

#endif  // LCI_NET_HPP
