// The opened network: a domain of a provider, what is registered with it, and who the peers are.
// Owns everything in this folder; ports outlive device objects. Callers: runtime through
// net::fabric. Threads: as net::fabric says.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <string_view>

#include "backends/ofi/connect.hpp"
#include "backends/ofi/lookup.hpp"
#include "backends/ofi/port.hpp"
#include "backends/ofi/region.hpp"
#include "backends/ofi/select.hpp"
#include "lci/net/backend.hpp"
#include "lci/net/connected/device_list.hpp"

namespace lci::ofi {

class fabric final : public net::fabric {
 public:
  explicit fabric(const net::fabric_config& config);  // throws backend_error
  ~fabric() override;

  const net::capabilities& caps() const noexcept override { return caps_; }
  std::string_view name() const noexcept override { return "ofi"; }
  net::network_names names() const override { return {chosen_.provider(), chosen_.domain()}; }
  std::string address() const override { return connector_.address(); }
  using net::fabric::make_device;
  std::unique_ptr<net::device> make_device(int index, net::device_config& config) override;
  std::string why_out_of_reach(std::string_view address) const override {
    return connector_.why_out_of_reach(address);
  }
  void connect(int rank) noexcept override;
  net::remote_view check_remote(int rank, net::remote_key key) noexcept override;
  std::uint64_t register_region(void* address, std::size_t size, mem::mem_kind kind,
                                std::string& why_not) override;
  void deregister_region(std::uint64_t local_key) noexcept override;
  void publish(net::remote_key name, std::uint64_t local_key) override;
  net::remote_target target_of(net::remote_key name) noexcept override;
  void leave() noexcept override;

  const net::fabric_config& config() const noexcept { return config_; }
  int rank() const noexcept { return config_.book->rank(); }
  int size() const noexcept { return config_.book->size(); }
  const opened_domain& domain() const noexcept { return domain_; }
  delivery how() const noexcept { return chosen_.how; }
  // Bytes in front of each message: its word, where nothing else carries it.
  std::size_t head() const noexcept {
    return domain_.info->domain_attr->cq_data_size >= sizeof(std::uint64_t) ? 0
                                                                            : sizeof(std::uint64_t);
  }
  regions& memory() noexcept { return memory_; }
  connector& calls() noexcept { return connector_; }
  lookups& keys() noexcept { return lookups_; }

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
  lookups lookups_;
  net::connected::device_list<port> ports_{"ofi"};
  std::atomic<bool> has_left_{false};
};

}  // namespace lci::ofi
