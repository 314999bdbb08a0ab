/// @file transfer.hpp
/// The result of an operation of a transport, in four forms: waited for, a future of the standard
/// library, a callback, a completion object. A fifth form, for C++20, is in transport_await.hpp.
#ifndef LCI_TRANSFER_HPP
#define LCI_TRANSFER_HPP

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <utility>

#include "lci/completion.hpp"
#include "lci/errors.hpp"
#include "lci/export.hpp"

namespace lci {

namespace transports {
class operation;
class link;
class core;
}  // namespace transports

/// An operation was cancelled before it was complete.
class LCI_PUBLIC cancelled_error : public std::runtime_error {
 public:
  /// @param what  the message
  explicit cancelled_error(const std::string& what) : std::runtime_error(what) {}
};

/// An operation did not complete within its time limit.
class LCI_PUBLIC timeout_error : public std::runtime_error {
 public:
  /// @param what  the message
  explicit timeout_error(const std::string& what) : std::runtime_error(what) {}
};

/// What a write with notification tells its target.
struct notification {
  uint64_t tag = 0;    ///< as the writer gave it
  uint64_t count = 0;  ///< how many this peer has sent so far, this one included
  int peer = -1;       ///< transport::peer::number()
};

/// An operation that was started; copies refer to the same one. The operation continues even if no
/// transfer refers to it. Threads: any.
class LCI_PUBLIC transfer {
 public:
  /// Called once at the end, with null or with what get() would throw. It runs in the thread that
  /// makes progress, or in on_done() if the operation has ended, with no lock held, so it may start
  /// further operations. It must not block or throw.
  typedef std::function<void(std::exception_ptr)> callback;

  transfer() {}
  /// Whether it stands for an operation.
  /// @return false for a default-constructed one
  bool is_valid() const { return op_ != nullptr; }
  /// Whether it has ended, well or not.
  /// @return true if so
  bool is_done() const;
  /// Whether the local buffers are still in use. True for a while after an operation under way was
  /// cancelled or ran out of time.
  /// @return true if so
  bool is_in_use() const;
  /// Makes progress until it has ended; sleeps while nothing happens.
  /// @param limit_s  seconds; below 0 or above 1e9: no limit
  /// @return false: the time is up, and the operation continues
  /// @throws lci::argument_error  `limit_s` is not a number
  bool wait(double limit_s = -1) const;
  /// Waits, then returns or throws.
  /// @throws lci::peer_failure_error  the peer is lost, with the reason
  /// @throws lci::argument_error  the owner of the remote memory refuses the key, or part of the
  /// range is outside
  /// @throws lci::cancelled_error, lci::timeout_error  as they say
  void get() const;
  /// Ends it as soon as possible with cancelled_error: no further part of it is started.
  /// @return true: none of it had been started; false: some of it was, or it has ended
  bool cancel() const;
  /// The notification, once a transfer of transport::next_write() is done.
  /// @return the notification
  notification note() const;
  /// Calls the function at the end; at once if it has ended. Small writes may end in write(), so
  /// a function that starts one and calls on_done() with itself is called inside itself, without a
  /// limit: look at is_done() in a loop, or use `co_await`.
  /// @param function  see callback
  void on_done(callback function) const;
  /// Signals the object at the end. The status has `done` and the sum of the sizes, or `fatal` if
  /// the operation has failed; get() says why.
  /// @param comp  any object of lci; must live until then
  /// @param user_context  for the status
  void signal(comp_t comp, void* user_context = nullptr) const;
  /// As a future of the standard library. Another thread or call must make progress: a future does
  /// not.
  /// @return the future
  std::future<void> future() const {
    std::shared_ptr<std::promise<void>> promise = std::make_shared<std::promise<void>>();
    std::future<void> result = promise->get_future();
    on_done([promise](const std::exception_ptr& problem) {
      if (problem)
        promise->set_exception(problem);
      else
        promise->set_value();
    });
    return result;
  }

 private:
  friend class transports::link;
  friend class transports::core;
  explicit transfer(std::shared_ptr<transports::operation> op) : op_(std::move(op)) {}
  std::shared_ptr<transports::operation> op_;
};

}  // namespace lci

#endif  // LCI_TRANSFER_HPP
