// The opened network: the cards that are used, what is registered with them, and who the peers are.
// Owns everything in this folder; queues outlive device objects. Callers: runtime through
// net::fabric. Threads: as net::fabric says.
#pragma once

#include <memory>
#include <string_view>

#include "backends/ibv/cards.hpp"
#include "backends/ibv/connector.hpp"
#include "backends/ibv/endpoint.hpp"
#include "backends/ibv/event_queue.hpp"
#include "backends/ibv/kernel_card.hpp"
#include "backends/ibv/key_cache.hpp"
#include "backends/ibv/region.hpp"
#include "lci/net/connected/fabric.hpp"

namespace lci::ibv {

class fabric final : public net::connected::fabric<fabric, event_queue, endpoint> {
 public:
  explicit fabric(const net::fabric_config& config);  // throws backend_error
  ~fabric() override;

  const net::capabilities& caps() const noexcept override { return caps_; }
  std::string_view name() const noexcept override { return "ibv"; }
  net::network_names names() const override { return {"verbs", cards_.names()}; }
  net::kernel_card* card_for_kernels() noexcept override { return &for_kernels_; }
  void leave() noexcept override;

  const net::fabric_config& config() const noexcept { return cards_.config(); }
  regions& memory() noexcept { return memory_; }
  connector& calls() noexcept { return connector_; }
  const connector& calls() const noexcept { return connector_; }
  key_cache& keys() noexcept { return keys_; }
  net::connected::device_list<event_queue>& devices() noexcept { return devices_; }
  std::unique_ptr<event_queue> make_queue(int index, const net::device_config& wanted);

 private:
  cards cards_;
  net::capabilities caps_;
  regions memory_;
  kernel_card for_kernels_{cards_};
  connector connector_;
  key_cache keys_;
  net::connected::device_list<event_queue> devices_{"ibv"};
};

}  // namespace lci::ibv
