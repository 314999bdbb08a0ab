// Whether an exception says that a peer is lost. Threads: pure function.
#pragma once

#include <exception>

#include "lci/errors.hpp"

namespace lci::base {

// Null is none.
inline bool is_loss(const std::exception_ptr& what) noexcept {
  if (what == nullptr) return false;
  try {
    std::rethrow_exception(what);
  } catch (const peer_failure_error&) {
    return true;
  } catch (...) {
    return false;
  }
}

}  // namespace lci::base
