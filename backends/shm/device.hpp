// A device object: a face of device queues. Threads: as net::device says.
#pragma once

#include <cstddef>
#include <memory>

#include "lci/base/platform.hpp"
#include "lci/base/thread_id.hpp"
#include "lci/net/backend.hpp"

namespace lci::shm {

class connections;
class device_queues;
class side_inbox;

class device final : public net::device {
 public:
  device(connections& peers, device_queues& queues, std::size_t max_polls) noexcept
      : peers_(peers), queues_(queues), max_polls_(max_polls) {}
  ~device() override;
  std::unique_ptr<net::endpoint> make_endpoint() override;
  std::size_t poll(net::sink& to, std::size_t max) noexcept override;
  std::size_t poll_beside(net::sink& to, std::size_t max) noexcept override;
  bool is_drained() const noexcept override;
  bool may_bring(int rank) const noexcept override;
  // For tests, which forge what a peer might write.
  device_queues& behind() const noexcept { return queues_; }

 private:
  std::size_t look_at_lanes(net::sink& to, std::size_t max,
                            base::detail::thread_record& me) noexcept;
  [[gnu::noinline]] std::size_t poll_closer(net::sink& to, std::size_t max,
                                            base::detail::thread_record& me) noexcept;
  [[gnu::noinline]] std::size_t poll_on(net::sink& to, std::size_t max,
                                        base::detail::thread_record& me) noexcept;
  [[gnu::noinline]] std::size_t settle(base::detail::thread_record& me) noexcept;
  [[gnu::noinline]] std::size_t poll_elsewhere(net::sink& to, std::size_t max) noexcept;
  LCI_COLD std::size_t poll_as_new_owner(net::sink& to, std::size_t max, side_inbox* own) noexcept;

  connections& peers_;
  device_queues& queues_;
  const std::size_t max_polls_;  // messages that one poll presents
};

}  // namespace lci::shm
