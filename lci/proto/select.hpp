// Which protocol carries a message: the first record whose accepts() says yes. None of them asks
// which backend it runs on. Threads: immutable.
#pragma once

#include <span>

#include "lci/proto/outgoing.hpp"

namespace lci::proto {

struct protocol {
  const char* name;
  bool (*accepts)(const outgoing& out) noexcept;
  errorcode_t (*start)(outgoing& out);
};

// In order of preference; the last accepts everything.
std::span<const protocol> message_protocols() noexcept;
const protocol& select_message(const outgoing& out) noexcept;

}  // namespace lci::proto
