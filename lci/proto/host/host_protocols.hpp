// How the protocols between host buffers hang in the engine of one device. Owned by the device's
// queues. Threads: as part says.
#pragma once

#include "lci/proto/engine/part.hpp"
#include "lci/proto/host/host_context.hpp"

namespace lci::proto {

class host_protocols final : public part, private arrivals {
 public:
  explicit host_protocols(host_context& host);
  ~host_protocols();
  host_protocols(const host_protocols&) = delete;
  host_protocols& operator=(const host_protocols&) = delete;

  std::size_t serve_waiting() noexcept override;
  bool is_quiet() const noexcept override {
    return host_.rendezvous.recvs.size() == 0 && host_.window.waiting() == 0;
  }
  void on_peer_ended(int rank, peer_end how) noexcept override;
  bool on_all_in(int rank) noexcept override;
  void report(base::report::sheet& to) noexcept override;

 private:
  net::verdict deliver_in_turn(const net::arrival& from, rcomp_t rcomp,
                               tag_t tag) noexcept override;
  receive* take_lost(int rank) noexcept;

  host_context& host_;
};

}  // namespace lci::proto
