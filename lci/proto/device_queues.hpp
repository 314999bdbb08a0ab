// All that a device has of protocols: the engine, and those that hang in it. What the runtime owns
// and the api uses. Threads: as the parts; made and ended by one thread.
#pragma once

#include "lci/proto/engine/attached.hpp"
#include "lci/proto/engine/progress_engine.hpp"
#include "lci/proto/gpu/common.hpp"
#include "lci/proto/gpu/jobs.hpp"
#include "lci/proto/gpu/protocols.hpp"
#include "lci/proto/host/card_pairs.hpp"
#include "lci/proto/host/host_context.hpp"
#include "lci/proto/host/host_protocols.hpp"
#include "lci/proto/host/remote_atomics.hpp"

namespace lci::proto {

// What the devices of one runtime share.
struct shared_state {
  // See core.
  shared_state(int rank, int size, wire::imm_layout layout, int ranks_here,
               std::size_t most_reserve = mem::arena::DEFAULT_RESERVE)
      : core(rank, size, layout, ranks_here, most_reserve) {}
  proto::core core;
  host_common host{core};
  gpu::common gpu{core, gpu_jobs};
  gpu::job_pools gpu_jobs;  // ends before the accelerator that its records may hold memory of
};

class device_queues {
 public:
  device_queues(shared_state& shared, net::fabric& fabric, int index,
                const net::device_config& wanted, mem::packet_pool& pool, std::size_t max_piece)
      : host(shared.host, fabric, index, wanted, pool, max_piece),
        gpu(host, shared.gpu),
        above(shared.core) {
    engine().add_part(above);
    engine().enter();
  }
  ~device_queues() { engine().leave(); }
  device_queues(const device_queues&) = delete;
  device_queues& operator=(const device_queues&) = delete;

  // One round of progress. done: something happened. Throws what handlers threw, truncation_error,
  // and peer_failure_error once per dead peer.
  error_t progress();
  // The same for a call that waits, which looks at the losses by itself: throws no
  // peer_failure_error.
  errorcode_t progress_in_wait();
  // The same where nothing can be thrown, as in a thread that is not the program's: what there is
  // to throw stays for a call that can. True: something happened.
  bool progress_unheard() noexcept;
  // True when everything posted here has completed, receives included.
  bool is_drained() const noexcept;
  // True when nothing is under way; receives may still wait for messages that were not sent.
  bool is_quiet() const noexcept;
  // is_drained() of operations alone: handlers that wait for their turn and the network do not
  // count.
  bool is_drained_but_for_handlers() const noexcept {
    return host.open_receives.sum() == 0 && engine().is_quiet_but_for_handlers();
  }

  progress_engine& engine() noexcept { return host.engine; }
  const progress_engine& engine() const noexcept { return host.engine; }

  host_context host;

 private:
  host_protocols host_protocols_{host};

 public:
  gpu::protocols gpu;
  remote_atomics atomics{host};
  card_pairs pairs{host};
  attached above;
};

}  // namespace lci::proto
