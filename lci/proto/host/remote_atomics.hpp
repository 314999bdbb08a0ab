// Atomic operations on words of memory that another rank has registered, or this one: a request
// goes there as a control message, its progress changes the word, and what the word was comes back.
// There is one per device; the other side needs nothing but a device. Host memory is changed by the
// processor, GPU memory by a kernel of that process.
//
// Callers: what executes work requests of GPUs; no public call. Threads: shared. Always true: an
// accepted request ends in exactly one on_atomic(), and is performed once if it ends as `done`; a
// late, repeated or forged answer finds nothing, as requests are known by {slot, generation}; what
// a GPU has still to perform when the device gives up has no owner, and ends by itself.
//
// Order: a request is performed after the data of each put that was posted to that rank through the
// same device before, and was done or signalled before the request was started, is visible there;
// so a thread that sees what the operation wrote (a signal) sees the data of those puts. That is
// what decision 0028 says of all that is posted later; the request is a message, and takes part in
// it. Two requests that are under way at the same time have no order, also those of one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "lci/base/spinlock.hpp"
#include "lci/data/slot_table.hpp"
#include "lci/mem/accelerator.hpp"
#include "lci/proto/engine/part.hpp"
#include "lci/proto/engine/wire.hpp"
#include "lci/types.hpp"

namespace lci::proto {

class core;
class host_context;

// How a request ended: what the other side answered, or that it will not answer.
enum class atomic_outcome : std::uint32_t {
  done,
  bad_key,
  out_of_bounds,
  misaligned,
  not_possible,
  failed,     // up to here as in wire::atomic_result
  peer_lost,  // it may have been performed
  device_freed
};
std::string_view text_of(atomic_outcome how) noexcept;

// Filled by the thread that starts it, and not touched until it has ended.
class atomic_request {
 public:
  int rank = 0;
  wire::name region;         // slot and generation, as an rmr carries them
  std::uint64_t offset = 0;  // of the word, from the start of the region
  wqe::word_change change;   // see wqe::change_of()
  std::uint64_t old = 0;     // once it is done: what the word was; 4 bytes: in the low half

  // In progress of this device, in any thread; it may start others, and may come before start() has
  // returned. The request is its owner's again. Must not make progress.
  virtual void on_atomic(atomic_outcome how) noexcept = 0;

 protected:
  ~atomic_request() = default;
};

class remote_atomics final : public part {
 public:
  explicit remote_atomics(host_context& host);
  ~remote_atomics();
  remote_atomics(const remote_atomics&) = delete;
  remote_atomics& operator=(const remote_atomics&) = delete;

  // posted: it ends by on_atomic(). retry_...: not now, and nothing has happened. fatal: that rank
  // has ended, and it is not called. Throws argument_error: there is no such rank or operation.
  errorcode_t start(atomic_request& request);
  // Requests that have not ended. A snapshot.
  std::uint32_t open() const noexcept { return open_.size(); }

  std::size_t serve_waiting() noexcept override;
  bool is_quiet() const noexcept override;
  void on_peer_ended(int rank, peer_end how) noexcept override;
  void report(base::report::sheet& to) noexcept override;

 private:
  struct waiting {
    atomic_request* request;
    int rank;
    std::uint32_t size;  // of the word
  };
  // Whose the jobs are that a GPU has.
  struct owner {
    explicit owner(remote_atomics* of, core& everything) : home(of), shared(everything) {}
    base::spinlock lock;     // guards the next two
    remote_atomics* home;    // null: it has ended
    std::size_t inside = 0;  // threads that are telling it of a job
    core& shared;
  };
  // What a rank has asked us for, from its request to the answer.
  class job final : public mem::atomic_job {
   public:
    void on_performed(std::string_view error) noexcept override;

    std::shared_ptr<owner> of;
    job* next_job = nullptr;  // in a list
    int rank = -1;
    wire::atomic_end answer;
  };

  // As control messages. Throws std::bad_alloc: nothing has changed.
  void on_request(int rank, const wire::atomic& body);
  void on_answer(int rank, const wire::atomic_end& body) noexcept;

  // The request of that name, which the caller ends. Null: there is none.
  atomic_request* take(wire::name of, int rank) noexcept;
  atomic_request* take_any_of(int rank, std::uint32_t& from) noexcept;  // -1: of any rank
  void end(atomic_request& request, atomic_outcome how) noexcept;

  job& make_job();
  void free(job& one) noexcept;
  // Sets the answer. False: a GPU will.
  bool perform(job& mine, const wire::atomic& body) noexcept;
  void reply(job& mine) noexcept;

  host_context& host_;
  const std::shared_ptr<owner> self_;
  mutable base::spinlock lock_;  // guards all below
  data::slot_table<waiting> open_;
  job* free_jobs_ = nullptr;
  job* unsent_ = nullptr;     // answers for which there was no memory
  std::size_t jobs_out_ = 0;  // not in free_jobs_
};

}  // namespace lci::proto
