// Posts to the backend, and keeps the backlog of what it refused. One per endpoint, and one for
// what the protocols send by themselves. Owned by the engine; an endpoint has its one on loan.
// Threads: shared. Always true: what waits for a rank is not overtaken by what is posted after it;
// it lasts as long as its engine, since operations under way name it after their endpoint is freed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "lci/net/backend.hpp"
#include "lci/proto/engine/backlog.hpp"
#include "lci/proto/engine/op.hpp"
#include "lci/proto/engine/wire.hpp"

namespace lci::proto {

class progress_engine;

class post_queue {
 public:
  // spares: see backlog. Throws std::bad_alloc.
  post_queue(progress_engine& owner, std::unique_ptr<net::endpoint> end,
             std::size_t spares = SPARES)
      : engine(owner), log(spares), end_(std::move(end)) {}
  void attach(std::unique_ptr<net::endpoint> end) noexcept { end_ = std::move(end); }

  net::endpoint& end() noexcept { return *end_; }
  // Sends a message of the protocols themselves: it may not be refused, so it waits in the backlog
  // if need be. Where there is no memory even for that, progress tells.
  template <class Body>
  void send_control(int rank, wire::kind what, const Body& body) noexcept {
    send_control_bytes(rank, wire::kind_imm(what), &body, wire::length_of(body));
  }
  // The same for a caller that can come again. False: there is no memory, and nothing was sent.
  template <class Body>
  bool accept_control(int rank, wire::kind what, const Body& body) noexcept {
    static_assert(sizeof(Body) <= backlog_entry::BODY_BYTES);
    return accept_bytes(rank, wire::kind_imm(what), &body, wire::length_of(body));
  }
  // Same, but may be refused: for the first message of an operation that can still answer retry.
  template <class Body>
  errorcode_t try_control(int rank, wire::kind what, const Body& body) noexcept {
    if (log.pending(rank)) return errorcode_t::retry_backlog;
    return end_->send_inline(rank, wire::kind_imm(what), nullptr, 0, &body, wire::length_of(body));
  }
  // Posts the next piece(s) of a transfer. posted: under way; done: finished, the caller ends it;
  // retry: nothing of this piece was posted.
  errorcode_t advance(transfer& move) noexcept;
  // advance() for a transfer that no call waits for: if refused it is parked and progress goes on
  // with it.
  void start(transfer& move) noexcept;
  // A transfer has come to its end, in one way or the other: its protocol does what is left to do,
  // and the engine finishes it.
  void conclude(transfer& move) noexcept;
  // Leaves an operation to progress. Throws std::bad_alloc: nothing has changed.
  void queue(int rank, std::unique_ptr<backlog_entry>&& entry);
  // Hands on what the network takes; answers how many entries.
  std::size_t drain() noexcept;
  // Drops what waits for a rank that ended; -1: everything.
  void forget(int rank) noexcept;

  progress_engine& engine;
  backlog log;

 private:
  static constexpr std::size_t SPARES = 4;
  void send_control_bytes(int rank, std::uint32_t imm, const void* body, std::size_t size) noexcept;
  bool accept_bytes(int rank, std::uint32_t imm, const void* body, std::size_t size) noexcept;
  bool try_entry(int rank, backlog_entry& entry, transfer*& ended) noexcept;
  void refused(transfer& move) noexcept;
  std::unique_ptr<net::endpoint> end_;
};

// What an endpoint has: gives the queue back to its engine.
struct queue_return {
  void operator()(post_queue* one) const noexcept;
};
using lent_queue = std::unique_ptr<post_queue, queue_return>;

}  // namespace lci::proto
