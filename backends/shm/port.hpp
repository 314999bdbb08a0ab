// Everything behind one device index of a fabric. Device objects come and go; a port stays, with
// what is in its lanes. Threads: outbox and pump as they say; inbox belongs to whoever is inside
// `polling`.
#pragma once

#include "backends/shm/inbox.hpp"
#include "backends/shm/outbox.hpp"
#include "backends/shm/stream.hpp"
#include "lci/base/owned.hpp"

namespace lci::shm {

class peers;

class port {
 public:
  port(peers& f, int index) : out(f, index), flow(f, out, polling), in(f, index, flow) {}

  base::owned polling;  // who polls
  outbox out;           // lanes to peers
  pump flow;            // large transfers
  inbox in;             // lanes from peers
};

}  // namespace lci::shm
