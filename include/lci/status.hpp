/// @file status.hpp
/// The result of a post, and what a completion object receives.
#ifndef LCI_STATUS_HPP
#define LCI_STATUS_HPP

#include "lci/export.hpp"
#include "lci/types.hpp"

namespace lci {

/// Name of an error code.
/// @param errorcode  the code
/// @return such as "retry_nomem"; never freed
LCI_PUBLIC const char* get_errorcode_str(errorcode_t errorcode);

/// An error code with tests of its category. After `using namespace lci` write `lci::error_t`: the
/// C library has a global type of this name.
struct error_t {
  errorcode_t errorcode;  ///< the code itself

  error_t() : errorcode(errorcode_t::retry_init) {}
  /// Implicit from a code, so that functions can return one.
  /// @param code  the code
  error_t(errorcode_t code) : errorcode(code) {}
  /// Resets to a default-constructed error.
  void reset_retry() { errorcode = errorcode_t::retry_init; }
  /// Complete; no completion object will be signalled.
  /// @return true if so
  bool is_done() const {
    return errorcode > errorcode_t::done_min && errorcode < errorcode_t::done_max;
  }
  /// Accepted; the completion object will be signalled exactly once.
  /// @return true if so
  bool is_posted() const {
    return errorcode > errorcode_t::posted_min && errorcode < errorcode_t::posted_max;
  }
  /// Nothing happened; call again.
  /// @return true if so
  bool is_retry() const {
    return errorcode > errorcode_t::retry_min && errorcode < errorcode_t::retry_max;
  }
  /// Name of the code.
  /// @return such as "done"; never freed
  const char* get_str() const { return get_errorcode_str(errorcode); }
};

/// Outcome of one operation. Trivially copyable, 40 bytes on 64-bit platforms.
struct status_t {
  error_t error;  ///< category and code; always valid
  int rank;  ///< the peer: source of a receive or active message, target of an outgoing operation
  void* buffer;        ///< local buffer; for an active message the message itself
  size_t size;         ///< bytes transferred
  tag_t tag;           ///< tag of the message
  void* user_context;  ///< the poster's context; null on the target side

  status_t() : error(), rank(-1), buffer(nullptr), size(0), tag(0), user_context(nullptr) {}
  /// Implicit from a code, so that functions can return one.
  /// @param code  the code
  status_t(errorcode_t code)
      : error(code), rank(-1), buffer(nullptr), size(0), tag(0), user_context(nullptr) {}
  /// A done status that carries a context.
  /// @param context  the result of get_user_context()
  explicit status_t(void* context)
      : error(errorcode_t::done),
        rank(-1),
        buffer(nullptr),
        size(0),
        tag(0),
        user_context(context) {}

  void set_done() { error = errorcode_t::done; }           ///< mark as done
  void set_posted() { error = errorcode_t::posted; }       ///< mark as posted
  void set_retry() { error = errorcode_t::retry; }         ///< mark as retry
  bool is_done() const { return error.is_done(); }         ///< see error_t::is_done
  bool is_posted() const { return error.is_posted(); }     ///< see error_t::is_posted
  bool is_retry() const { return error.is_retry(); }       ///< see error_t::is_retry
  error_t get_error() const { return error; }              ///< the error
  int get_rank() const { return rank; }                    ///< the peer
  void* get_buffer() const { return buffer; }              ///< the buffer
  size_t get_size() const { return size; }                 ///< bytes transferred
  tag_t get_tag() const { return tag; }                    ///< the tag
  void* get_user_context() const { return user_context; }  ///< the poster's context
};

}  // namespace lci

#endif  // LCI_STATUS_HPP
