// The completion queue of a device on one card. Its entries are copied (ibv_poll_cq) or, with
// LCI_IBV_EXTENDED_CQ=1 where the card offers it, read field by field (extended_queue). Either way
// they come out the same. Owned by device_queues or a side. Threads: poll() the polling thread;
// make_room() under the connector's lock.
#pragma once

#include <cstdint>

#include "backends/ibv/extended_queue.hpp"
#include "backends/ibv/handles.hpp"
#include "backends/ibv/select.hpp"

namespace lci::ibv {

class completions {
 public:
  // Throws backend_error.
  completions(const chosen_port& card, std::uint32_t size);

  ibv_cq* queue() const noexcept { return cq_.get(); }
  std::uint32_t size() const noexcept { return size_; }
  // Grows if need be, so that everything on the way to so many peers has a place beside `others`: a
  // queue pair that fails flushes all that was posted on it. Throws backend_error.
  void make_room(std::size_t peers, std::uint32_t depth, std::uint32_t others = 0);
  // How many of `out` were filled in, in order; less than 0: the queue cannot be polled. Of an
  // entry the name of the work request, status and number of the queue pair are there; of a receive
  // that went well all that it says.
  int poll(ibv_wc* out, int most) noexcept {
    return extended_.queue != nullptr ? extended_.poll(extended_.queue, out, most)
                                      : ibv_poll_cq(cq_.get(), most, out);
  }

 private:
  const chosen_port& card_;
  std::uint32_t size_;
  const extended_queue extended_;  // the same as cq_, or none
  cq_handle cq_;
};

}  // namespace lci::ibv
