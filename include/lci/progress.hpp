/// @file progress.hpp
/// Advancing communication. There is no hidden thread: nothing moves unless a thread calls
/// progress(), or an operation that is documented to make progress.
#ifndef LCI_PROGRESS_HPP
#define LCI_PROGRESS_HPP

#include "lci/options.hpp"

namespace lci {
namespace detail {

/// Arguments of the functions below; a null handle means "not given".
struct progress_args {
  runtime_t runtime;
  device_t device;
  endpoint_t endpoint;  // not of test_drained and wait_drained
};

LCI_PUBLIC error_t progress(const progress_args& args);
LCI_PUBLIC error_t test_drained(const progress_args& args);
LCI_PUBLIC void wait_drained(const progress_args& args);
/// Throws lci::peer_failure_error if the device has lost a peer: for operations that need all
/// ranks.
LCI_PUBLIC void check_none_lost(const progress_args& args);
/// Begins (1) or ends (-1) a nonblocking operation that needs all ranks on the device: meanwhile
/// progress() reports every loss.
LCI_PUBLIC void need_all(const progress_args& args, int change);

}  // namespace detail

/// Advances all communication of one device: sends queued operations, handles arrived messages,
/// signals completion objects and runs handlers, in the calling thread.
///
/// @return  done if there was work, retry if there was none or another thread was inside
/// @throws lci::truncation_error    a message was larger than its receive; the rest of the batch
/// was delivered
/// @throws lci::peer_failure_error  a peer is lost with which an operation of this device was under
/// way; with attribute `failure_notice` `all`, any peer. Once per device and peer, after all
/// successful completions. Not in a thread in which a blocking call has already reported the peer;
/// another thread then reports it.
/// @throws std::runtime_error       a message named an unknown remote completion object
/// Threads: any, also from inside a handler.
class progress_x
    : public detail::operation<progress_x, detail::progress_args, error_t, &detail::progress>,
      public detail::runtime_option<progress_x>,
      public detail::device_option<progress_x>,
      public detail::endpoint_option<progress_x> {};

/// Tests whether all local operations on a device, including receives, are complete.
/// @return  done: no operation is outstanding; retry: at least one is
/// Threads: any; meaningful only while no thread posts.
class test_drained_x : public detail::operation<test_drained_x, detail::progress_args, error_t,
                                                &detail::test_drained>,
                       public detail::runtime_option<test_drained_x>,
                       public detail::device_option<test_drained_x> {};

/// Makes progress on a device until test_drained() returns done.
/// @throws lci::peer_failure_error  a peer died after the call began, whichever thread detected it,
/// or disconnected while an operation needed it
/// Threads: any. Errors: also the other errors of progress().
class wait_drained_x
    : public detail::operation<wait_drained_x, detail::progress_args, void, &detail::wait_drained>,
      public detail::runtime_option<wait_drained_x>,
      public detail::device_option<wait_drained_x> {};

/// progress_x without options.
inline error_t progress() { return progress_x().call(); }
/// test_drained_x without options.
inline error_t test_drained() { return test_drained_x().call(); }
/// wait_drained_x without options.
inline void wait_drained() { wait_drained_x().call(); }

}  // namespace lci

#endif  // LCI_PROGRESS_HPP
