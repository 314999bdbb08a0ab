/// @file completion.hpp
/// Completion objects: they receive the completions of operations, and peers can name them
/// (remote_completion.hpp).
///
/// Objects do not depend on a device and may outlive all devices. Freeing an object in use is an
/// error: the call reports it for a running graph and its `comp`, a collective under way and a
/// waiting stream, otherwise the operation does when it completes. No object that is created
/// meanwhile is signalled instead, or gets its numbers for peers. Calls refuse a freed handle until
/// 4096 more of its kind have been freed; after that it may name a new object. Signalling and
/// testing: any threads at the same time. Allocating and freeing: any thread, while no other uses
/// that object.
#ifndef LCI_COMPLETION_HPP
#define LCI_COMPLETION_HPP

#include "lci/options.hpp"

namespace lci {

/// Base of all completion objects. Derive from it, as first base, to define your own; the library
/// frees such an object only in free_comp().
class LCI_PUBLIC comp_impl_t {
 public:
  typedef comp_attr_t attr_t;  ///< attribute struct
  comp_attr_t attr;            ///< attributes of the object; fixed before its first use

  /// A user-defined object without zero-copy active messages.
  comp_impl_t() : attr() {}
  /// A user-defined object with these attributes, except for `comp_type` and `serial`: those of
  /// another object do not make it one of that kind.
  explicit comp_impl_t(const attr_t& given) : attr(given) {
    attr.comp_type = attr_comp_type_t::custom;
    attr.serial = 0;
  }
  virtual ~comp_impl_t() {}
  /// Reports one completed operation. Called by any thread that posts or makes progress; must not
  /// block.
  virtual void signal(status_t status) = 0;
};

namespace detail {

/// Arguments of alloc_sync, alloc_counter, alloc_cq, alloc_handler and alloc_graph.
struct alloc_comp_args {
  overrides_t<comp_settings_t> settings;
  runtime_t runtime;
  comp_handler_t handler = nullptr;  // alloc_handler only
  comp_t comp;                       // alloc_graph only
  const char* name = nullptr;        // null: DEFAULT_NAME
  void* user_context = nullptr;
};
/// Arguments of operations on one completion object.
struct comp_args {
  comp_t comp;
  runtime_t runtime;
};
/// Arguments of free_comp.
struct free_comp_args {
  comp_t* comp = nullptr;
  runtime_t runtime;
};
/// Arguments of sync_test and sync_wait; what follows `runtime` is of the latter only.
struct sync_args {
  comp_t comp;
  status_t* p_out = nullptr;
  runtime_t runtime;
  device_t device;
  endpoint_t endpoint;  // names its device, where `device` is empty
  bool do_progress = true;
};
/// Arguments of counter_set.
struct counter_set_args {
  comp_t comp;
  int64_t value = 0;
  runtime_t runtime;
};
/// Arguments of comp_signal.
struct comp_signal_args {
  comp_t comp;
  status_t status;
  runtime_t runtime;
};

LCI_PUBLIC comp_t alloc_sync(const alloc_comp_args& args);
LCI_PUBLIC comp_t alloc_counter(const alloc_comp_args& args);
LCI_PUBLIC comp_t alloc_cq(const alloc_comp_args& args);
LCI_PUBLIC comp_t alloc_handler(const alloc_comp_args& args);
LCI_PUBLIC void free_comp(const free_comp_args& args);
LCI_PUBLIC bool sync_test(const sync_args& args);
LCI_PUBLIC void sync_wait(const sync_args& args);
LCI_PUBLIC int64_t counter_get(const comp_args& args);
LCI_PUBLIC void counter_set(const counter_set_args& args);
LCI_PUBLIC status_t cq_pop(const comp_args& args);
LCI_PUBLIC void comp_signal(const comp_signal_args& args);
// Throws argument_error for a freed object; an empty handle is legal.
LCI_PUBLIC void check_comp(const char* operation, comp_t comp);
LCI_PUBLIC void signal_in_turn(const comp_signal_args& args, device_t device, endpoint_t endpoint);
// free_comp() refuses the object until it is released: a "barrier" under way on that runtime will
// signal it at its end.
struct held_comp;
LCI_PUBLIC held_comp* hold_comp(comp_t comp, const char* by, runtime_t of);
LCI_PUBLIC void let_go(held_comp* one);  // null is legal

/// Setters of every new completion object.
template <class Op, comp_t (*Run)(const alloc_comp_args&)>
class alloc_comp_operation : public operation<Op, alloc_comp_args, comp_t, Run>,
                             public runtime_option<Op>,
                             public name_options<Op> {
 protected:
  template <class T>
  Op&& set(T comp_settings_t::*member, T value) {
    this->args.settings.set(member, value);
    return this->self();
  }
};

/// Setter of objects that can receive active messages.
template <class Op>
struct zero_copy_am_option {
  /// Sets whether small active messages are delivered in their packet, which the program returns
  /// with put_upacket(). Default: `LCI_ATTR_ZERO_COPY_AM`, else false.
  Op&& zero_copy_am(bool value) {
    Op& op = static_cast<Op&>(*this);
    op.args.settings.set(&comp_settings_t::zero_copy_am, value);
    return std::move(op);
  }
};

/// Positional setter of operations on one completion object.
template <class Op>
struct comp_positional {
  /// Sets the completion object.
  Op&& comp(comp_t value) {
    Op& op = static_cast<Op&>(*this);
    op.args.comp = value;
    return std::move(op);
  }
};

}  // namespace detail

/// Creates a synchronizer. It is ready after `threshold` signals and can then be reused.
/// @return  the synchronizer, without signals; free it with free_comp()
/// @throws lci::argument_error  threshold outside 1 to 2^24
class alloc_sync_x : public detail::alloc_comp_operation<alloc_sync_x, &detail::alloc_sync>,
                     public detail::zero_copy_am_option<alloc_sync_x> {
 public:
  /// Sets the number of signals. Default: attribute `sync_threshold`.
  alloc_sync_x&& threshold(int value) { return set(&comp_settings_t::sync_threshold, value); }
};

/// Creates a counter with value 0: every signal adds one; the status is dropped.
/// @return  the counter; free it with free_comp()
class alloc_counter_x
    : public detail::alloc_comp_operation<alloc_counter_x, &detail::alloc_counter> {};

/// Creates a completion queue: every signal adds its status, cq_pop() removes one. Messages of one
/// peer that different threads poll may come out of a `per_thread` queue in another order.
/// @return  the queue, empty; free it with free_comp()
/// @throws lci::argument_error  length outside 1 to 2^24, or a type that does not exist
class alloc_cq_x : public detail::alloc_comp_operation<alloc_cq_x, &detail::alloc_cq>,
                   public detail::zero_copy_am_option<alloc_cq_x> {
 public:
  /// Sets the capacity of an `array_atomic` queue. Default: attribute `cq_default_length`.
  alloc_cq_x&& default_length(int value) { return set(&comp_settings_t::cq_default_length, value); }
  /// Sets the data structure. Default: attribute `cq_type` (`LCI_ATTR_CQ_TYPE`, else `lcrq`).
  alloc_cq_x&& cq_type(attr_cq_type_t value) { return set(&comp_settings_t::cq_type, value); }
};

/// Creates an object that calls a function in the thread that signals it. The function may post and
/// allocate. It must not wait for an operation that needs the function to return.
/// @throws lci::argument_error  null function
/// @return  the object; free it with free_comp()
class alloc_handler_x
    : public detail::alloc_comp_operation<alloc_handler_x, &detail::alloc_handler>,
      public detail::zero_copy_am_option<alloc_handler_x> {
 public:
  /// Takes the function.
  explicit alloc_handler_x(comp_handler_t value) { args.handler = value; }
  /// Sets the function.
  alloc_handler_x&& handler(comp_handler_t value) {
    args.handler = value;
    return self();
  }
};

/// Frees a completion object and empties the handle. If an operation or a number still refers to
/// it, the progress() that would signal it throws lci::argument_error with the operation, the peer
/// and the tag.
/// @throws lci::argument_error  empty or freed; a graph that is started and not complete,
/// or of which a node is still posted
class free_comp_x
    : public detail::operation<free_comp_x, detail::free_comp_args, void, &detail::free_comp>,
      public detail::runtime_option<free_comp_x> {
 public:
  /// Takes the handle to empty.
  explicit free_comp_x(comp_t* value) { args.comp = value; }
  /// Sets the handle to empty.
  free_comp_x&& comp(comp_t* value) {
    args.comp = value;
    return self();
  }
};

/// Tests whether a synchronizer is ready.
/// @return  true: `threshold` statuses were copied to `p_out` (null is allowed) and the count
/// restarts from zero; exactly one of several testing threads gets them. False: `p_out` is
/// untouched
/// @throws lci::argument_error  not a synchronizer
class sync_test_x
    : public detail::operation<sync_test_x, detail::sync_args, bool, &detail::sync_test>,
      public detail::runtime_option<sync_test_x>,
      public detail::comp_positional<sync_test_x> {
 public:
  /// Positional arguments, see the setters of their names.
  sync_test_x(comp_t comp, status_t* p_out) {
    args.comp = comp;
    args.p_out = p_out;
  }
  /// Sets the buffer for the statuses.
  sync_test_x&& p_out(status_t* value) {
    args.p_out = value;
    return self();
  }
};

/// Waits until sync_test() returns true, and makes progress meanwhile.
/// @throws lci::peer_failure_error  a peer died after the call began, whichever thread detected it,
/// or disconnected while an operation needed it. The object is unchanged and the program may wait
/// for it again. A peer lost earlier ends the call only if an operation with it should have
/// signalled this object: docs/errors.md.
/// Errors: also the other errors of progress().
class sync_wait_x
    : public detail::operation<sync_wait_x, detail::sync_args, void, &detail::sync_wait>,
      public detail::runtime_option<sync_wait_x>,
      public detail::device_option<sync_wait_x>,
      public detail::comp_positional<sync_wait_x> {
 public:
  /// Positional arguments, see the setters of their names.
  sync_wait_x(comp_t comp, status_t* p_out) {
    args.comp = comp;
    args.p_out = p_out;
  }
  /// Sets the buffer for the statuses.
  sync_wait_x&& p_out(status_t* value) {
    args.p_out = value;
    return self();
  }
  /// Sets whether to make progress while waiting. Default: true.
  sync_wait_x&& do_progress(bool value) {
    args.do_progress = value;
    return self();
  }
};

/// Value of a counter. @throws lci::argument_error  not a counter
/// @return  signals since it was created or set, plus the value that was set
class counter_get_x
    : public detail::operation<counter_get_x, detail::comp_args, int64_t, &detail::counter_get>,
      public detail::runtime_option<counter_get_x>,
      public detail::comp_positional<counter_get_x> {
 public:
  /// Takes the counter.
  explicit counter_get_x(comp_t comp) { args.comp = comp; }
};

/// Sets the value of a counter. @throws lci::argument_error  not a counter
class counter_set_x
    : public detail::operation<counter_set_x, detail::counter_set_args, void, &detail::counter_set>,
      public detail::runtime_option<counter_set_x>,
      public detail::comp_positional<counter_set_x> {
 public:
  /// Positional arguments, see the setters of their names.
  counter_set_x(comp_t comp, int64_t value) {
    args.comp = comp;
    args.value = value;
  }
  /// Sets the new value.
  counter_set_x&& value(int64_t value) {
    args.value = value;
    return self();
  }
};

/// Removes one status from a completion queue. The thread that takes the last one may free the
/// queue.
/// @return  the oldest status, which is done; or a retry status if the queue is empty. Of the type
/// `per_thread`: the oldest of one of the threads that signalled
/// @throws lci::argument_error  not a completion queue
class cq_pop_x : public detail::operation<cq_pop_x, detail::comp_args, status_t, &detail::cq_pop>,
                 public detail::runtime_option<cq_pop_x>,
                 public detail::comp_positional<cq_pop_x> {
 public:
  /// Takes the queue.
  explicit cq_pop_x(comp_t comp) { args.comp = comp; }
};

/// Signals a completion object explicitly.
class comp_signal_x
    : public detail::operation<comp_signal_x, detail::comp_signal_args, void, &detail::comp_signal>,
      public detail::runtime_option<comp_signal_x>,
      public detail::comp_positional<comp_signal_x> {
 public:
  /// Positional arguments, see the setters of their names.
  comp_signal_x(comp_t comp, status_t status) {
    args.comp = comp;
    args.status = status;
  }
  /// Sets the status.
  comp_signal_x&& status(status_t value) {
    args.status = value;
    return self();
  }
};

/// alloc_sync_x without options.
inline comp_t alloc_sync() { return alloc_sync_x().call(); }
/// alloc_counter_x without options.
inline comp_t alloc_counter() { return alloc_counter_x().call(); }
/// alloc_cq_x without options.
inline comp_t alloc_cq() { return alloc_cq_x().call(); }
/// alloc_handler_x without options.
inline comp_t alloc_handler(comp_handler_t handler) { return alloc_handler_x(handler).call(); }
/// free_comp_x without options.
inline void free_comp(comp_t* comp) { free_comp_x(comp).call(); }
/// sync_test_x without options.
inline bool sync_test(comp_t comp, status_t* p_out) { return sync_test_x(comp, p_out).call(); }
/// sync_wait_x without options.
inline void sync_wait(comp_t comp, status_t* p_out) { sync_wait_x(comp, p_out).call(); }
/// counter_get_x without options.
inline int64_t counter_get(comp_t comp) { return counter_get_x(comp).call(); }
/// counter_set_x without options.
inline void counter_set(comp_t comp, int64_t value) { counter_set_x(comp, value).call(); }
/// cq_pop_x without options.
inline status_t cq_pop(comp_t comp) { return cq_pop_x(comp).call(); }
/// comp_signal_x without options.
inline void comp_signal(comp_t comp, status_t status) { comp_signal_x(comp, status).call(); }

}  // namespace lci

#endif  // LCI_COMPLETION_HPP
