/// @file post.hpp
/// Communication: send, receive, active message, put, get, and the general form of all five.
///
/// Every post returns one of three results:
/// - done: complete. The completion object will not be signalled; the fields of the status are
/// valid.
/// - posted: accepted. The completion object will be signalled exactly once, by a thread in
/// progress().
/// - retry: nothing was begun and the library owns nothing; call again, usually after progress().
/// The bytes that a put or get would write may hold a part of the data; those of other operations
/// are untouched.
///
/// A call with wrong arguments throws lci::argument_error and changes nothing. Wrong arguments
/// include a size beyond the end of the address space or of the region in `.mr()`. A post to a rank
/// that is known to have failed throws lci::peer_failure_error. A blocking post (COMP_NULL) throws
/// it when its peer is lost, with ANY_SOURCE when any peer is lost. Threads: any, at the same time,
/// also on one device.
#ifndef LCI_POST_HPP
#define LCI_POST_HPP

#include "lci/options.hpp"

namespace lci {
namespace detail {

/// Arguments of all posts. A null handle means "not given": the library uses the default when it
/// needs it. The struct is flat on purpose: building one must cost no more than the stores.
struct post_args {
  int rank = -1;
  void* local_buffer = nullptr;
  size_t size = 0;
  comp_t local_comp;
  tag_t tag = 0;
  rcomp_t remote_comp = 0;
  uintptr_t remote_disp = 0;
  rmr_t rmr;
  runtime_t runtime;
  device_t device;
  endpoint_t endpoint;
  packet_pool_t packet_pool;
  matching_engine_t matching_engine;
  mr_t mr;
  void* user_context = nullptr;
  direction_t direction = direction_t::OUT;
  comp_semantic_t comp_semantic = comp_semantic_t::memory;
  matching_policy_t matching_policy = matching_policy_t::rank_tag;
  bool allow_done = true;
  bool allow_posted = true;
  bool allow_retry = true;
};

LCI_PUBLIC status_t post_send(const post_args& args);
LCI_PUBLIC status_t post_recv(const post_args& args);
LCI_PUBLIC status_t post_am(const post_args& args);
LCI_PUBLIC status_t post_put(const post_args& args);
LCI_PUBLIC status_t post_get(const post_args& args);
LCI_PUBLIC status_t post_comm(const post_args& args);

/// Setters of all posts.
template <class Op, status_t (*Run)(const post_args&)>
class post_operation : public operation<Op, post_args, status_t, Run>,
                       public runtime_option<Op>,
                       public device_option<Op>,
                       public endpoint_option<Op>,
                       public packet_pool_option<Op>,
                       public comp_semantic_option<Op>,
                       public user_context_option<Op> {
 public:
  /// Sets the peer; only a receive accepts ANY_SOURCE.
  Op&& rank(int value) { return set(&post_args::rank, value); }
  /// Sets the local buffer; it must not change until the operation is complete.
  Op&& local_buffer(void* value) { return set(&post_args::local_buffer, value); }
  /// Sets the number of bytes to transfer, or the size of a receive buffer.
  Op&& size(size_t value) { return set(&post_args::size, value); }
  /// Sets the object to signal if the post returns posted; COMP_NULL or COMP_NULL_RETRY: complete
  /// inside the call.
  Op&& local_comp(comp_t value) { return set(&post_args::local_comp, value); }
  /// Sets the tag. Default: 0 where it is not positional.
  Op&& tag(tag_t value) { return set(&post_args::tag, value); }
  /// Sets the region that contains the local buffer, or its memory kind. Default: MR_HOST.
  Op&& mr(mr_t value) { return set(&post_args::mr, value); }
  /// Sets whether the post may return done; if not, the object is signalled in that case too.
  /// Default: true.
  Op&& allow_done(bool value) { return set(&post_args::allow_done, value); }
  /// Sets whether the post may return posted; if not, the call makes progress until the operation
  /// is complete. A receive then waits for its message, unless its object is COMP_NULL_RETRY.
  /// Default: true.
  Op&& allow_posted(bool value) { return set(&post_args::allow_posted, value); }
  /// Sets whether the post may return retry; if not, the library queues an operation that it cannot
  /// send now. Default: true.
  Op&& allow_retry(bool value) { return set(&post_args::allow_retry, value); }

 protected:
  template <class T>
  Op&& set(T post_args::*field, T value) {
    this->args.*field = value;
    return this->self();
  }
  post_operation(int rank, void* local_buffer, size_t size, comp_t local_comp) {
    this->args.rank = rank;
    this->args.local_buffer = local_buffer;
    this->args.size = size;
    this->args.local_comp = local_comp;
  }
};

/// Setter of operations that match a receive.
template <class Op>
struct matching_options : matching_engine_option<Op> {
  /// Sets which of rank and tag are matched; both sides must agree. Default: rank_tag.
  Op&& matching_policy(matching_policy_t value) {
    Op& op = static_cast<Op&>(*this);
    op.args.matching_policy = value;
    return std::move(op);
  }
};

/// Setter of operations that name a completion object of the peer.
template <class Op>
struct remote_comp_option {
  /// Sets the peer's completion object. Default: 0, none, where it is not positional.
  Op&& remote_comp(rcomp_t value) {
    Op& op = static_cast<Op&>(*this);
    op.args.remote_comp = value;
    return std::move(op);
  }
};

/// Setters of operations on a peer's memory.
template <class Op>
struct remote_memory_options : remote_comp_option<Op> {
  /// Sets the offset in bytes from `rmr.base`. Default: 0 where it is not positional.
  Op&& remote_disp(uintptr_t value) {
    Op& op = static_cast<Op&>(*this);
    op.args.remote_disp = value;
    return std::move(op);
  }
  /// Sets the peer's region. Default: none where it is not positional.
  Op&& rmr(rmr_t value) {
    Op& op = static_cast<Op&>(*this);
    op.args.rmr = value;
    return std::move(op);
  }
};

}  // namespace detail

/// Sends a message that matches a receive of rank `rank` by (rank, tag).
///
/// Up to get_max_bcopy_size() bytes, of the pool and of the device's own, the buffer may be reused
/// when the call returns done (on a device of another net context than the runtime's first: as far
/// as its network takes them in one piece). Larger messages return posted and are read from the
/// buffer when the receiver has posted one. Size 0 is legal.
/// @return  done: the buffer may be reused, `local_comp` is not signalled; posted: the buffer may
/// be reused when `local_comp` is signalled; retry: nothing happened. A result that an option
/// forbids is never returned
/// @throws lci::argument_error  rank outside 0..n-1, null buffer with a size, both done and posted
/// forbidden
class post_send_x : public detail::post_operation<post_send_x, &detail::post_send>,
                    public detail::matching_options<post_send_x> {
 public:
  /// Positional arguments, see the setters of their names.
  post_send_x(int rank, void* local_buffer, size_t size, tag_t tag, comp_t local_comp)
      : post_operation(rank, local_buffer, size, local_comp) {
    args.tag = tag;
  }
};

/// Receives a message into a buffer of `size` bytes.
///
/// Returns done if the message has already arrived, else posted. It returns retry only with
/// COMP_NULL_RETRY, if there is no message. With ANY_SOURCE and/or ANY_TAG it matches every message
/// that the wildcard covers, in arrival order. If a message is larger than the buffer, the call
/// that finds it (this post, or progress()) throws lci::truncation_error: the receive ends, its
/// object is not signalled, nothing is written to the buffer, and the message waits for the next
/// matching receive.
/// @return  done: the message is in the buffer, and the status gives its rank, tag and size;
/// posted: `local_comp` is signalled with these; retry: only with COMP_NULL_RETRY, there is no
/// message
/// @throws lci::argument_error  rank neither ANY_SOURCE nor in 0..n-1, null buffer with a size
class post_recv_x : public detail::post_operation<post_recv_x, &detail::post_recv>,
                    public detail::matching_options<post_recv_x> {
 public:
  /// Positional arguments, see the setters of their names.
  post_recv_x(int rank, void* local_buffer, size_t size, tag_t tag, comp_t local_comp)
      : post_operation(rank, local_buffer, size, local_comp) {
    args.tag = tag;
  }
};

/// Sends an active message: rank `rank` signals the object it registered as `remote_comp`, with the
/// message.
///
/// The receiver gets a done status with the sender's rank, the tag, and a buffer that it then owns.
/// @return  done: the buffer may be reused, `local_comp` is not signalled; posted: the buffer may
/// be reused when `local_comp` is signalled; retry: nothing happened. A result that an option
/// forbids is never returned
/// @throws lci::argument_error  rank outside 0..n-1, null buffer with a size, remote_comp 0
class post_am_x : public detail::post_operation<post_am_x, &detail::post_am>,
                  public detail::remote_comp_option<post_am_x> {
 public:
  /// Positional arguments, see the setters of their names.
  post_am_x(int rank, void* local_buffer, size_t size, comp_t local_comp, rcomp_t remote_comp)
      : post_operation(rank, local_buffer, size, local_comp) {
    args.remote_comp = remote_comp;
  }
};

/// Writes `size` bytes to `rmr.base + remote_disp` in the memory of rank `rank`.
///
/// With `remote_comp` the peer's object is signalled once the data is visible there: done, the
/// origin's rank and tag, no buffer. Done means that the buffer may be reused, not that the data
/// has arrived. However, after the post has returned done, or the object was signalled, all later
/// posts to this rank through the same device, by any thread and any endpoint, are ordered after
/// the data: messages, notifications of puts and gets see it, and a later put to the same bytes
/// wins. A put that was posted and not yet signalled is not ordered, nor are operations of
/// different devices.
/// @return  done: the buffer may be reused, `local_comp` is not signalled; posted: the buffer may
/// be reused when `local_comp` is signalled; retry: nothing was begun, and no peer is signalled,
/// but a part of the data may be there. A result that an option forbids is never returned
/// @throws lci::argument_error  rank outside 0..n-1, null buffer with a size, unknown region, write
/// beyond its end, tag above `max_imm_tag` together with `remote_comp`
class post_put_x : public detail::post_operation<post_put_x, &detail::post_put>,
                   public detail::remote_memory_options<post_put_x> {
 public:
  /// Positional arguments, see the setters of their names.
  post_put_x(int rank, void* local_buffer, size_t size, comp_t local_comp, uintptr_t remote_disp,
             rmr_t rmr)
      : post_operation(rank, local_buffer, size, local_comp) {
    args.remote_disp = remote_disp;
    args.rmr = rmr;
  }
};

/// Reads `size` bytes from `rmr.base + remote_disp` in the memory of rank `rank`.
///
/// The operation is complete when the data is in the local buffer.
/// @return  done: the data is in the buffer, `local_comp` is not signalled; posted: the data is in
/// the buffer when `local_comp` is signalled; retry: nothing was begun, but a part of the data may
/// be in the buffer. A result that an option forbids is never returned
/// @throws lci::argument_error  rank outside 0..n-1, null buffer with a size, unknown region, read
/// beyond its end, a remote completion
class post_get_x : public detail::post_operation<post_get_x, &detail::post_get>,
                   public detail::remote_memory_options<post_get_x> {
 public:
  /// Positional arguments, see the setters of their names.
  post_get_x(int rank, void* local_buffer, size_t size, comp_t local_comp, uintptr_t remote_disp,
             rmr_t rmr)
      : post_operation(rank, local_buffer, size, local_comp) {
    args.direction = direction_t::IN;
    args.remote_disp = remote_disp;
    args.rmr = rmr;
  }
};

/// The general operation. Direction, remote region and remote completion select one of the five:
/// OUT without both is a send, with a completion an active message, with a region a put, with both
/// a put with signal; IN without both is a receive, with a region a get.
/// @return  done, posted or retry, as for the selected operation
/// @throws lci::argument_error  IN with a remote completion, and the errors of the selected
/// operation
class post_comm_x : public detail::post_operation<post_comm_x, &detail::post_comm>,
                    public detail::matching_options<post_comm_x>,
                    public detail::remote_memory_options<post_comm_x> {
 public:
  /// Positional arguments, see the setters of their names.
  post_comm_x(direction_t direction, int rank, void* local_buffer, size_t size, comp_t local_comp)
      : post_operation(rank, local_buffer, size, local_comp) {
    args.direction = direction;
  }
  /// Sets the direction.
  post_comm_x&& direction(direction_t value) { return set(&detail::post_args::direction, value); }
};

/// post_send_x without options.
inline status_t post_send(int rank, void* local_buffer, size_t size, tag_t tag, comp_t local_comp) {
  return post_send_x(rank, local_buffer, size, tag, local_comp).call();
}
/// post_recv_x without options.
inline status_t post_recv(int rank, void* local_buffer, size_t size, tag_t tag, comp_t local_comp) {
  return post_recv_x(rank, local_buffer, size, tag, local_comp).call();
}
/// post_am_x without options.
inline status_t post_am(int rank, void* local_buffer, size_t size, comp_t local_comp,
                        rcomp_t remote_comp) {
  return post_am_x(rank, local_buffer, size, local_comp, remote_comp).call();
}
/// post_put_x without options.
inline status_t post_put(int rank, void* local_buffer, size_t size, comp_t local_comp,
                         uintptr_t remote_disp, rmr_t rmr) {
  return post_put_x(rank, local_buffer, size, local_comp, remote_disp, rmr).call();
}
/// post_get_x without options.
inline status_t post_get(int rank, void* local_buffer, size_t size, comp_t local_comp,
                         uintptr_t remote_disp, rmr_t rmr) {
  return post_get_x(rank, local_buffer, size, local_comp, remote_disp, rmr).call();
}
/// post_comm_x without options.
inline status_t post_comm(direction_t direction, int rank, void* local_buffer, size_t size,
                          comp_t local_comp) {
  return post_comm_x(direction, rank, local_buffer, size, local_comp).call();
}

}  // namespace lci

#endif  // LCI_POST_HPP
