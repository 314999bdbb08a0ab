/// @file errors.hpp
/// Exceptions of the public interface. All derive from std::runtime_error.
#ifndef LCI_ERRORS_HPP
#define LCI_ERRORS_HPP

#include <stdexcept>
#include <string>

#include "lci/export.hpp"

namespace lci {

/// A call received a wrong argument. The text gives the argument, its value and the legal range.
/// Nothing was changed.
class LCI_PUBLIC argument_error : public std::runtime_error {
 public:
  /// @param what  the message
  explicit argument_error(const std::string& what) : std::runtime_error(what) {}
};

/// The system, a network library or a device failed at set-up. The text gives the call, the object,
/// the sizes and the system's reason.
class LCI_PUBLIC backend_error : public std::runtime_error {
 public:
  /// @param what  the message
  explicit backend_error(const std::string& what) : std::runtime_error(what) {}
};

/// A message is larger than the receive that matches it. Nothing is written past the end of the
/// buffer.
class LCI_PUBLIC truncation_error : public std::runtime_error {
 public:
  /// @param what  the message
  explicit truncation_error(const std::string& what) : std::runtime_error(what) {}
};

/// A call inside a handler waits for another handler, but handlers are already nested as deep as
/// attribute `max_handler_depth` allows, so that handler can run only after this one returns. Or
/// the call may wait for another handler, and there was no event for `max_handler_wait_s`. The
/// posted operation continues and uses its buffer.
class LCI_PUBLIC handler_depth_error : public std::runtime_error {
 public:
  /// @param what  the message
  explicit handler_depth_error(const std::string& what) : std::runtime_error(what) {}
};

/// A peer died or is no longer reachable, or it disconnected while an operation needed it. Thrown
/// by progress(), once per device, if an operation with that rank was under way (attribute
/// `failure_notice`); by posts to that rank; and by blocking calls in any thread: a blocking post
/// if its own peer is lost, the others if any peer is lost. docs/errors.md lists them.
class LCI_PUBLIC peer_failure_error : public std::runtime_error {
 public:
  /// @param failed_rank  the rank that failed
  /// @param what  the message
  peer_failure_error(int failed_rank, const std::string& what)
      : std::runtime_error(what), failed_rank_(failed_rank) {}
  /// The failed rank.
  /// @return the rank that failed
  int failed_rank() const noexcept { return failed_rank_; }

 private:
  int failed_rank_;
};

}  // namespace lci

#endif  // LCI_ERRORS_HPP
