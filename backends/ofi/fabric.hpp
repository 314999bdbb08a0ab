// The opened network: a domain of a provider, what is registered with it, and who the peers are.
// Owns everything in this folder; queues outlive device objects. Callers: runtime through
// net::fabric. Threads: as net::fabric says.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <string_view>

#include "backends/ofi/connector.hpp"
#include "backends/ofi/endpoint.hpp"
#include "backends/ofi/event_queue.hpp"
#include "backends/ofi/key_cache.hpp"
#include "backends/ofi/region.hpp"
#include "backends/ofi/select.hpp"
#include "lci/net/connected/fabric.hpp"

namespace lci::ofi {

class fabric final : public net::connected::fabric<fabric, event_queue, endpoint> {
 public:
  explicit fabric(const net::fabric_config& config);  // throws backend_error
  ~fabric() override;

  const net::capabilities& caps() const noexcept override { return caps_; }
  std::string_view name() const noexcept override { return "ofi"; }
  net::network_names names() const override { return {chosen_.provider(), chosen_.domain()}; }
  std::string why_out_of_reach(std::string_view address) const override {
    return connector_.why_out_of_reach(address);
  }
  void leave() noexcept override;

  const net::fabric_config& config() const noexcept { return config_; }
  regions& memory() noexcept { return memory_; }
  connector& calls() noexcept { return connector_; }
  const connector& calls() const noexcept { return connector_; }
  key_cache& keys() noexcept { return keys_; }
  net::connected::device_list<event_queue>& devices() noexcept { return devices_; }
  std::unique_ptr<event_queue> make_queue(int index, const net::device_config& wanted);

 private:
  const net::fabric_config config_;
  std::string why_;  // it was chosen
  const candidate chosen_;
  const fabric_handle fabric_;
  const domain_handle handle_;
  const opened_domain domain_;
  net::capabilities caps_;
  // Outlives what may be bound to its endpoint.
  connector connector_;
  regions memory_;
  key_cache keys_;
  net::connected::device_list<event_queue> devices_{"ofi"};
  std::atomic<bool> has_left_{false};
};

}  // namespace lci::ofi
