/// @file errors.hpp
/// Exceptions of the public interface. All derive from std::runtime_error.
#ifndef LCI_ERRORS_HPP
#define LCI_ERRORS_HPP

#include <stdexcept>
#include <string>

#include "lci/export.hpp"

namespace lci {

/// A call was made with a wrong argument. The text names the argument, its value and the legal
/// range; nothing was changed.
class LCI_PUBLIC argument_error : public std::runtime_error {
 public:
  /// @param what  text for people
  explicit argument_error(const std::string& what) : std::runtime_error(what) {}
};

/// Something the library stands on (the system, a network library, a device) refused at set-up. The
/// text names the call, the object, the sizes and the system's reason.
class LCI_PUBLIC backend_error : public std::runtime_error {
 public:
  /// @param what  text for people
  explicit backend_error(const std::string& what) : std::runtime_error(what) {}
};

/// A message is larger than the receive that matches it. Nothing was written past the end of the
/// buffer.
class LCI_PUBLIC truncation_error : public std::runtime_error {
 public:
  /// @param what  text for people
  explicit truncation_error(const std::string& what) : std::runtime_error(what) {}
};

/// A call waits inside a handler for what only another handler can bring, and handlers are nested
/// as deep already as attribute `max_handler_depth` allows: that other one runs when this one
/// returns. Or it may wait for that, and nothing has come for `max_handler_wait_s`. What was posted
/// goes on, and uses its buffer.
class LCI_PUBLIC handler_depth_error : public std::runtime_error {
 public:
  /// @param what  text for people
  explicit handler_depth_error(const std::string& what) : std::runtime_error(what) {}
};

/// A peer died or cannot be reached any more. Thrown by progress(), once per device, where an
/// operation with that rank was under way (attribute `failure_notice`), by posts to that rank, and
/// by every blocking call that was waiting, in whatever thread.
class LCI_PUBLIC peer_failure_error : public std::runtime_error {
 public:
  /// @param failed_rank  the rank that failed
  /// @param what         text for people
  peer_failure_error(int failed_rank, const std::string& what)
      : std::runtime_error(what), failed_rank_(failed_rank) {}
  /// Whom it is about.
  /// @return the rank that failed
  int failed_rank() const noexcept { return failed_rank_; }

 private:
  int failed_rank_;
};

}  // namespace lci

#endif  // LCI_ERRORS_HPP
