#include "backends/shm/device_queues.hpp"

#include "backends/shm/connections.hpp"

namespace lci::shm {

device_queues::device_queues(connections& peers, int index)
    : sides(peers, index),
      out(peers, index),
      flow(peers, out, polling),
      gets(peers.size()),
      in(peers, index, flow, gets, sides) {}

}  // namespace lci::shm
