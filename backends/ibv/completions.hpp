// The completion queue of a port. Its entries are copied (ibv_poll_cq) or, with
// LCI_IBV_EXTENDED_CQ=1 where the card offers it, read field by field (ibv_start_poll), which
// spares the driver to fill in what nobody reads
// (docs/decisions/0017-way-of-a-message-over-verbs.md). Either way they come out the same. Owned by
// port. Threads: poll() the polling thread; grow() under the connector's lock. Always true: nothing
// is read between a poll's start and its end but fields, so a driver may hold a lock there.
#pragma once

#include <cstdint>

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
    return extended_ != nullptr ? poll_extended(out, most) : ibv_poll_cq(cq_.get(), most, out);
  }

 private:
  int poll_extended(ibv_wc* out, int most) noexcept;

  const chosen_port& card_;
  std::uint32_t size_;
  ibv_cq_ex* extended_;  // the same as cq_, or null
  cq_handle cq_;
};

}  // namespace lci::ibv
