// A device object: a face of a port. Threads: as net::device says.
#pragma once

#include <cstddef>
#include <memory>

#include "lci/net/backend.hpp"

namespace lci::shm {

class peers;
class port;

class device final : public net::device {
 public:
  device(peers& f, port& p, std::size_t max_polls) noexcept
      : peers_(f), port_(p), max_polls_(max_polls) {}
  ~device() override;
  std::unique_ptr<net::endpoint> make_endpoint() override;
  std::size_t poll(net::sink& to, std::size_t max) noexcept override;
  bool is_drained() const noexcept override;
  bool may_bring(int rank) const noexcept override;
  // For tests, which forge what a peer might write.
  port& behind() const noexcept { return port_; }

 private:
  peers& peers_;
  port& port_;
  const std::size_t max_polls_;  // messages that one poll presents
};

}  // namespace lci::shm
