// Something that was given to the provider and is not completed: what it holds, and for whom. Lives
// in its device's pool, in the list of its connection meanwhile. Threads: single owner, but for the
// list hook, and what is taken out when the connection ends: those are under the connection's lock.
#pragma once

#include <boost/intrusive/list.hpp>
#include <cstdint>

#include "backends/ofi/queues.hpp"
#include "lci/mem/packet_pool.hpp"

namespace lci::ofi {

class connection;

// For whom something was posted.
enum class purpose : std::uint8_t {
  user,      // an operation of the layer above
  ours,      // a note
  keepalive  // is the peer still there?
};

// What its end is about.
struct holding {
  void* context = nullptr;        // for the sink
  mem::packet* packet = nullptr;  // goes back to its pool
  std::uint64_t key = 0;          // registration that was made for it
  purpose what = purpose::user;
};

struct work : ticket, holding {
  work() noexcept : ticket(kind::work) {}
  using holding::what;  // not that of the ticket
  connection* on = nullptr;
  std::uint64_t flush = 0;   // what the target is asked for, once it has been
  bool is_write = false;     // of remote memory
  bool is_silent = false;    // ... that nothing waits for
  bool is_answered = false;  // its completion is a sign of the peer, not of this host alone
  bool is_told = false;      // its end was told before the provider knew
  // In the list of the connection.
  boost::intrusive::list_member_hook<boost::intrusive::link_mode<boost::intrusive::normal_link>>
      in_connection;
  work* pool_next = nullptr;

  // A write or a read of a user that the provider is not done with.
  bool uses_memory_of_program() const noexcept {
    return what == purpose::user && packet == nullptr && flush == 0;
  }
  // As new, but for what is the provider's and the pool's.
  void clear(connection& to, purpose why) noexcept {
    static_cast<holding&>(*this) = {.what = why};
    on = &to;
    flush = 0;
    is_write = is_silent = is_answered = is_told = false;
  }
};

}  // namespace lci::ofi
