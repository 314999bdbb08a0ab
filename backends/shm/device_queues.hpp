// Everything behind one device index of a fabric. Device objects come and go; the queues stay, with
// what is in its lanes. Threads: outbox and bulk_stream as they say; inbox belongs to the thread
// that is inside `polling`.
#pragma once

#include "backends/shm/bulk_stream.hpp"
#include "backends/shm/inbox.hpp"
#include "backends/shm/outbox.hpp"
#include "lci/base/owned.hpp"

namespace lci::shm {

class connections;

class device_queues {
 public:
  device_queues(connections& peers, int index)
      : out(peers, index), flow(peers, out, polling), in(peers, index, flow) {}

  base::owned polling;  // who polls
  outbox out;           // lanes to peers
  bulk_stream flow;     // large transfers
  inbox in;             // lanes from peers
};

}  // namespace lci::shm
