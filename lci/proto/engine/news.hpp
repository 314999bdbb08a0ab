// What a completion object is told of, for errors. Threads: functions only.
#pragma once

#include <cstdint>

#include "lci/base/platform.hpp"
#include "lci/errors.hpp"
#include "lci/status.hpp"

namespace lci::proto {

enum class news : std::uint8_t {
  operation,
  send,
  am,
  put,
  get,
  receive,
  collective,
  message,
  notification
};

// The object that was to be told is freed: the error that names operation, peer and tag. said: what
// the signal threw.
LCI_COLD argument_error freed_too_early(const status_t& of, news what, const char* said);

}  // namespace lci::proto
