// A completion queue: statuses stored in place, in the order of the signals.
//
// Threads: shared, any number of signallers and takers; one compare-and-swap to signal, one to
// take.
//
// Always true: no status is lost or overwritten. The type array_atomic starts with the room that
// its length asks for, lcrq with little; both go on in a larger ring when full, so a length is a
// hint, not a limit.
#pragma once

#include "lci/comp/kind.hpp"
#include "lci/data/mpmc_queue.hpp"

namespace lci::comp {

class queue final : public comp_impl_t, public base::live_object<queue> {
 public:
  using tombstone = freed;
  using orphan = forked;
  static constexpr std::size_t QUARANTINE = COMP_QUARANTINE;
  static constexpr attr_comp_type_t KIND = attr_comp_type_t::cq;
  static constexpr int MAX_LENGTH = 1 << 24;  // that many statuses are a gigabyte

  // Throws argument_error for an unknown type, or a length that is not in 1..MAX_LENGTH.
  explicit queue(const comp_attr_t& given);

  // Throws std::bad_alloc when the queue would have to grow and cannot; then only this status is
  // lost.
  void push(const status_t& status) { statuses_.push(status); }
  // Returns a retry status when the queue is empty.
  status_t pop() noexcept {
    status_t status;
    statuses_.try_pop(status);
    return status;
  }

  void signal(status_t status) override { push(status); }

 private:
  static std::size_t first_capacity(const comp_attr_t& attr);
  data::mpmc_queue<status_t> statuses_;
};

}  // namespace lci::comp
