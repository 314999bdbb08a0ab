// Everything behind one device index of a fabric. Device objects come and go; the queues stay, with
// what is in its lanes. Threads: outbox, bulk_stream and side_inboxes as they say; inbox belongs to
// the thread that is inside `polling`.
#pragma once

#include "backends/shm/bulk_stream.hpp"
#include "backends/shm/inbox.hpp"
#include "backends/shm/outbox.hpp"
#include "backends/shm/short_gets.hpp"
#include "backends/shm/side_inboxes.hpp"
#include "lci/base/owned.hpp"

namespace lci::shm {

class connections;

class device_queues {
 public:
  device_queues(connections& peers, int index);  // throws std::bad_alloc

  base::owned polling;  // who polls, but for the lanes that are lent to others
  side_inboxes sides;   // these
  outbox out;           // lanes to peers
  bulk_stream flow;     // large transfers
  short_gets gets;      // that wait for their answers
  inbox in;             // lanes from peers
};

}  // namespace lci::shm
