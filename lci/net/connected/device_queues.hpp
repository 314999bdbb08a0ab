// The queues behind a device index, as far as they are the same over every network: connections,
// packets for receives and copies, what a rank sends to itself, and what the sink and peers are
// still to be told. Base of a backend's `device_queues`, which posts. Outlives the device objects,
// as what peers have sent to it does. Threads: shared.
#pragma once

#include <algorithm>
#include <cstddef>

#include "lci/mem/packet_pool.hpp"
#include "lci/net/backend.hpp"
#include "lci/net/connected/connection_table.hpp"
#include "lci/net/connected/due_notices.hpp"
#include "lci/net/loopback.hpp"

namespace lci::net::connected {

// Note: a message of the fabric's own among those of the layer above.
template <class Connection, class Note>
class device_queues : public connection_table<Connection> {
 public:
  using note = Note;
  // Events that are read beyond a batch while a message in front of them is deferred.
  std::size_t read_ahead() const noexcept { return 0; }
  device_queues(const device_queues&) = delete;
  device_queues& operator=(const device_queues&) = delete;

  int index() const noexcept { return index_; }
  // What it was made with, as far as the network could do it.
  const device_config& config() const noexcept { return config_; }
  loopback& self() noexcept { return self_; }
  mem::packet_pool& packets() noexcept { return packets_; }
  // An operation that failed before it was posted; on_error() at the next poll. Answers what the
  // post does.
  errorcode_t fail_later(const net_op& op, const char* reason) noexcept {
    return due_notices_.add_failure(op.rank, op.context, reason) ? errorcode_t::posted
                                                                 : errorcode_t::retry_nomem;
  }

 protected:
  // config: what there is of what was wanted.
  device_queues(const fabric_config& of, std::size_t max_send, int index,
                const device_config& config, connect_requests& requests,
                const std::atomic<const char*>* failure = nullptr)
      : connection_table<Connection>(static_cast<std::size_t>(of.book->size()), requests, failure,
                                     of.peers),
        arena_(*of.arena),
        config_(config),
        index_(index),
        packets_(*of.arena, sizeof(mem::packet) + max_send,
                 std::max<std::size_t>(config.max_recvs, LEAST_PACKETS)),
        self_(of.book->rank(), packets_, *of.regions) {}
  ~device_queues() = default;
  // How what is under way here ends is not reported. By the only thread that uses the device.
  void forget_failures() noexcept {
    due_notices_.forget_failures();
    self_.forget_failures();
  }
  // Nothing is left but what is posted on connections.
  bool is_quiet() const noexcept { return due_notices_.are_failures_told() && self_.is_empty(); }

  // Packets are made as they are needed.
  static constexpr std::size_t LEAST_PACKETS = 512;
  mem::arena& arena_;
  const device_config config_;
  const int index_;
  mem::packet_pool packets_;  // for receives, and for what has to be copied
  loopback self_;
  due_notices<Note> due_notices_;
};

}  // namespace lci::net::connected
