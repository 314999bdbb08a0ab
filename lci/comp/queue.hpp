// A completion queue: statuses stored in place, in the order of the signals; those of the type
// per_thread in the order of each thread's signals (data/per_thread_queue).
//
// Threads: shared, any number of signallers and takers; one compare-and-swap to signal, one to
// take. A thread that takes the last status may free the queue, so nothing here is touched once a
// status can be taken.
//
// Always true: no status is lost or overwritten. The type array_atomic starts with the room that
// its length asks for, the others with little; all go on in a larger ring when full, so a length is
// a hint, not a limit.
#pragma once

#include <cstddef>
#include <memory>

#include "lci/comp/kind.hpp"
#include "lci/data/mpmc_queue.hpp"
#include "lci/data/per_thread_queue.hpp"

namespace lci::comp {

class queue final : public of_kind<attr_comp_type_t::cq>, public base::live_object<queue> {
 public:
  using tombstone = freed;
  using orphan = forked;
  static constexpr std::size_t QUARANTINE = COMP_QUARANTINE;
  static constexpr int MAX_LENGTH = 1 << 24;  // that many statuses are a gigabyte

  // Throws argument_error for an unknown type, or a length that is not in 1..MAX_LENGTH.
  explicit queue(const comp_attr_t& given);

  // Throws std::bad_alloc when the queue would have to grow and cannot; then only this status is
  // lost.
  void push(const status_t& status) {
    if (per_thread_ != nullptr) [[unlikely]]
      return push_per_thread(status);
    statuses_.push(status);
  }
  // Returns a retry status when the queue is empty.
  status_t pop() noexcept {
    status_t status;
    if (per_thread_ != nullptr) [[unlikely]]
      pop_per_thread(status);
    else
      statuses_.try_pop(status);
    return status;
  }

  void signal(status_t status) override { push(status); }

 private:
  using queue_per_thread = data::per_thread_queue<status_t>;

  static std::size_t first_capacity(const comp_attr_t& attr);
  // Not inlined: the message paths that signal have to stay short.
  void push_per_thread(const status_t& status);
  void pop_per_thread(status_t& status) noexcept;

  // Null for the other types. In the line of the kind, which a caller has just read, and in room
  // that would be empty otherwise.
  const std::unique_ptr<queue_per_thread> per_thread_;
  data::mpmc_queue<status_t> statuses_;  // of the type per_thread: not used, and as small as can be
};

}  // namespace lci::comp
