// Where the far end of a write or read is: said along with the operation, or looked up by its name.
// Callers: endpoints. Threads: as the look-up.
#pragma once

#include "lci/net/backend.hpp"

namespace lci::net::connected {

// done: `at` is it, unless there is a `why_not`, a literal: then the operation makes no sense. Else
// what the post answers. Lookups: find(rank, key) answers a remote_view.
template <class Lookups>
errorcode_t find_remote_end(Lookups& keys, const net_op& op, remote_target& at,
                            const char*& why_not) noexcept {
  using said = remote_view::answer;
  why_not = nullptr;
  at = op.at;
  if (at.key != 0) return errorcode_t::done;
  const remote_view found = keys.find(op.rank, op.remote);
  if (found.what == said::not_connected) return errorcode_t::retry_nomem;
  at = found.at;
  if (found.what == said::unknown_key || op.remote_offset > found.size ||
      op.size > found.size - op.remote_offset)
    why_not = "the remote key is unknown, or the range is outside";
  else if (at.key == 0 && op.size != 0)
    why_not = "no network was given that memory";
  return errorcode_t::done;
}

}  // namespace lci::net::connected
