/// @file stream.hpp
/// Communication in the order of a GPU stream: posts that start when the previous work of the
/// stream is complete, and streams that wait for a completion. The host does not wait.
///
/// A stream is a `cudaStream_t` (or `CUstream`) of the program, passed as a `void*`. lci only adds
/// writes to, and waits for, words in pinned host memory. A thread must call progress() on a device
/// of the runtime until the stream has passed: a host that blocks in `cudaStreamSynchronize()`
/// instead waits forever, unless another thread makes progress.
///
/// Both may be called while the stream is being captured into a graph. They then become part of the
/// graph, run once per replay, and return a handle; free it when the graph will not run any more.
///
/// Needs CUDA 11.7 and a GPU with stream memory operations.
#ifndef LCI_STREAM_HPP
#define LCI_STREAM_HPP

#include "lci/completion.hpp"
#include "lci/post.hpp"

namespace lci {

class stream_op_impl_t;

/// Handle of a captured stream_post() or stream_wait() in a graph; empty if the call was not
/// captured, and then need not be freed. Owns nothing: copies name the same object.
struct stream_op_t {
  stream_op_impl_t* p_impl = nullptr;  ///< the object, or null

  stream_op_t() = default;
  /// Implicit, as for all handles.
  /// @param impl  the `p_impl` of another handle
  stream_op_t(void* impl) : p_impl(static_cast<stream_op_impl_t*>(impl)) {}
  /// Whether the handle names no object.
  /// @return true if so
  bool is_empty() const { return p_impl == nullptr; }
  /// Whether both name the same object.
  friend bool operator==(const stream_op_t& a, const stream_op_t& b) {
    return a.p_impl == b.p_impl;
  }
  /// Whether they name different objects.
  friend bool operator!=(const stream_op_t& a, const stream_op_t& b) { return !(a == b); }
};

namespace detail {

enum class post_kind_t { send, am, recv, put, get, comm };
template <class Op>
struct kind_of_post;
template <post_kind_t kind>
struct post_kind {
  static constexpr post_kind_t value() { return kind; }
};
template <>
struct kind_of_post<post_send_x> : post_kind<post_kind_t::send> {};
template <>
struct kind_of_post<post_am_x> : post_kind<post_kind_t::am> {};
template <>
struct kind_of_post<post_recv_x> : post_kind<post_kind_t::recv> {};
template <>
struct kind_of_post<post_put_x> : post_kind<post_kind_t::put> {};
template <>
struct kind_of_post<post_get_x> : post_kind<post_kind_t::get> {};
template <>
struct kind_of_post<post_comm_x> : post_kind<post_kind_t::comm> {};

/// Arguments of stream_post.
struct stream_post_args {
  void* stream = nullptr;
  post_args post;
  post_kind_t kind = post_kind_t::send;         // selects the checks before it runs
  status_t (*run)(const post_args&) = nullptr;  // which of the posts
};
/// Arguments of stream_wait.
struct stream_wait_args {
  void* stream = nullptr;
  comp_t comp;
  runtime_t runtime;
};
/// Arguments of free_stream_op.
struct free_stream_op_args {
  stream_op_t* op = nullptr;
  runtime_t runtime;
};

LCI_PUBLIC stream_op_t stream_post(const stream_post_args& args);
LCI_PUBLIC stream_op_t stream_wait(const stream_wait_args& args);
LCI_PUBLIC void free_stream_op(const free_stream_op_args& args);

}  // namespace detail

/// Starts a post (any `post_*_x`, which is copied) when the work that is now in a stream is
/// complete.
///
/// The stream continues at once. A later call of progress() runs the post, and runs it again while
/// it returns retry. Its completion object is signalled exactly once, even if the post itself would
/// return done. If the post throws, that progress() rethrows, and the post ends. The library owns
/// the buffer until the signal; to reuse it later in the stream, call stream_wait() first.
///
/// Posts in one stream start in stream order. A captured post sends one message per replay: a
/// replay that reaches the post before progress() has run the post of the previous replay waits
/// there. Posts captured in one graph keep their order over all replays. Posts of different graphs
/// are not ordered, nor are a graph's posts and one put into a stream directly.
/// @return  the handle to free after the graph, empty unless the stream is being captured
/// @throws lci::argument_error  no completion object, or a freed one; `allow_posted(false)`; the
/// errors of the post itself, except an access beyond a peer's region, which it may detect only
/// when it runs
/// @throws lci::backend_error   CUDA or its stream memory operations are not available, there is no
/// such stream, its context was destroyed, or the capture is invalid; the stream is unchanged
/// Threads: any.
class stream_post_x : public detail::operation<stream_post_x, detail::stream_post_args, stream_op_t,
                                               &detail::stream_post> {
 public:
  /// Takes the stream and the post.
  /// @param stream  see the setter of its name
  /// @param post    an operation of post.hpp; copied
  template <class Op, status_t (*Run)(const detail::post_args&)>
  stream_post_x(void* stream, const detail::post_operation<Op, Run>& post) {
    args.stream = stream;
    args.post = post.args;
    args.kind = detail::kind_of_post<Op>::value();
    args.run = Run;
  }
  /// Sets the stream. Null: the default stream of the context that is current in this thread.
  stream_post_x&& stream(void* value) {
    args.stream = value;
    return self();
  }
};

/// Makes a stream wait until a synchronizer is ready, and consumes that round of it as sync_test()
/// would. Later work in the stream runs when the operations that signal the synchronizer are
/// complete, and sees their data.
///
/// It takes a synchronizer because that has rounds: each wait, and each replay of a captured one,
/// consumes exactly one, the oldest wait first. The statuses are dropped, and no other thread
/// should test the synchronizer meanwhile. A failed operation signals nothing; call comp_signal()
/// to let the stream continue.
/// @return  the handle to free after the graph, empty unless the stream is being captured
/// @throws lci::argument_error  not a synchronizer, or a freed one. If it is freed while a stream
/// waits for it, the stream continues and progress() throws.
/// @throws lci::backend_error   as stream_post_x
/// Threads: any.
class stream_wait_x : public detail::operation<stream_wait_x, detail::stream_wait_args, stream_op_t,
                                               &detail::stream_wait>,
                      public detail::runtime_option<stream_wait_x>,
                      public detail::comp_positional<stream_wait_x> {
 public:
  /// Positional arguments, see the setters of their names.
  stream_wait_x(void* stream, comp_t comp) {
    args.stream = stream;
    args.comp = comp;
  }
  /// Sets the stream. Null: the default stream of the context that is current in this thread.
  stream_wait_x&& stream(void* value) {
    args.stream = value;
    return self();
  }
};

/// Frees the object of a captured stream_post() or stream_wait(), and empties the handle. The graph
/// must have run for the last time: a later replay would wait forever, or trigger another post. A
/// post that its last replay has triggered still starts if no progress() has seen it yet.
/// @throws lci::argument_error  an empty or freed handle
/// Threads: any, while no other thread uses that handle.
class free_stream_op_x : public detail::operation<free_stream_op_x, detail::free_stream_op_args,
                                                  void, &detail::free_stream_op>,
                         public detail::runtime_option<free_stream_op_x> {
 public:
  /// Takes the handle to empty.
  explicit free_stream_op_x(stream_op_t* value) { args.op = value; }
  /// Sets the handle to empty.
  free_stream_op_x&& op(stream_op_t* value) {
    args.op = value;
    return self();
  }
};

/// stream_post_x without options.
/// @param stream  a CUDA stream; null: the default stream of the current context
/// @param post    an operation of post.hpp; copied
/// @return the operation in the stream; free it with free_stream_op()
template <class Op, status_t (*Run)(const detail::post_args&)>
stream_op_t stream_post(void* stream, const detail::post_operation<Op, Run>& post) {
  return stream_post_x(stream, post).call();
}
/// stream_wait_x without options.
inline stream_op_t stream_wait(void* stream, comp_t comp) {
  return stream_wait_x(stream, comp).call();
}
/// free_stream_op_x without options.
inline void free_stream_op(stream_op_t* op) { free_stream_op_x(op).call(); }

}  // namespace lci

#endif  // LCI_STREAM_HPP
