// The two ends of a write or read: the far one is said along with the operation, or looked up by
// its name; the near one is registered, or is for this operation. Callers: endpoints. Threads: as
// the look-up and registrations.
#pragma once

#include <exception>
#include <new>
#include <string>
#include <utility>

#include "lci/net/backend.hpp"

namespace lci::net::connected {

// done: `at` is it. posted: the operation makes no sense, and the sink is told so. Else what the
// post answers. Queues: fail_later(), index(). Keys: find(rank, key, device) answers a remote_view.
template <class Queues, class Keys>
errorcode_t find_remote_end(Queues& queues, Keys& keys, const net_op& op,
                            remote_target& at) noexcept {
  using said = remote_view::answer;
  at = op.at;
  if (at.key != 0) return errorcode_t::done;
  const remote_view found = keys.find(op.rank, op.remote, queues.index());
  if (found.what == said::not_connected) return errorcode_t::retry_nomem;
  at = found.at;
  if (found.what == said::unknown_key || op.remote_offset > found.size ||
      op.size > found.size - op.remote_offset)
    return queues.fail_later(op, "the remote key is unknown, or the range is outside");
  if (at.key == 0 && op.size != 0)
    return queues.fail_later(op,
                             "no network was given that memory; a registration belongs to the net "
                             "context of the device that it was made with");
  return errorcode_t::done;
}

// The same of the near end. find(key): whether the buffer, registered under that key or, if it is
// 0, part of the arena, can be used. made: what was made for this operation alone; 0: nothing.
template <class Queues, class Regions, class Find>
errorcode_t find_local_end(Queues& queues, Regions& memory, const net_op& op, std::uint64_t& made,
                           Find&& find) noexcept {
  if (find(op.local_key)) return errorcode_t::done;
  try {
    std::string why_not;
    made = memory.add(op.buffer, op.size, op.kind, why_not);
    if (made != 0 && find(made)) return errorcode_t::done;
    memory.remove(std::exchange(made, 0));
  } catch (const std::bad_alloc&) {
    return errorcode_t::retry_nomem;
  } catch (const std::exception&) {
  }
  return queues.fail_later(op, "the local buffer cannot be registered");
}

}  // namespace lci::net::connected
