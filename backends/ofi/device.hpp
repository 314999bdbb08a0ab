// A device object: a face of a port. Threads: as net::device says.
#pragma once

#include <cstddef>
#include <memory>

#include "backends/ofi/port.hpp"
#include "lci/net/backend.hpp"

namespace lci::ofi {

class fabric;

class device final : public net::device {
 public:
  device(fabric& f, port& p) noexcept : fabric_(f), port_(p) {}
  // The next device of this index may be polled by another thread, which should not have to wait.
  ~device() override { port_.leave_polling(); }
  std::unique_ptr<net::endpoint> make_endpoint() override;
  std::size_t poll(net::sink& to, std::size_t max) noexcept override { return port_.poll(to, max); }
  bool is_drained() const noexcept override { return port_.is_drained(); }
  bool may_bring(int rank) const noexcept override { return port_.find(rank) != nullptr; }

 private:
  fabric& fabric_;
  port& port_;
};

}  // namespace lci::ofi
