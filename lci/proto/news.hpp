// What a completion object is told of, for errors. Threads: functions only.
#pragma once

#include <cstdint>
#include <exception>

#include "lci/base/platform.hpp"
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

// The object that was to be told is freed: the argument_error that names operation, peer and tag.
// said: what the signal threw.
LCI_COLD std::exception_ptr freed_too_early(const status_t& of, news what, const char* said);

}  // namespace lci::proto
