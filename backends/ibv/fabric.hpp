// The opened network: the ports of the cards that are used, what is registered with it, and who the
// peers are. Owns everything in this folder; ports outlive device objects. Callers: runtime through
// net::fabric. Threads: as net::fabric says.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "backends/ibv/connect.hpp"
#include "backends/ibv/lookup.hpp"
#include "backends/ibv/port.hpp"
#include "backends/ibv/region.hpp"
#include "backends/ibv/select.hpp"
#include "lci/net/backend.hpp"
#include "lci/net/connected/device_list.hpp"

namespace lci::ibv {

class fabric final : public net::fabric {
 public:
  explicit fabric(const net::fabric_config& config)  // throws backend_error
      : fabric(config, open_ports(wishes_of(config))) {}
  ~fabric() override;

  const net::capabilities& caps() const noexcept override { return caps_; }
  std::string_view name() const noexcept override { return "ibv"; }
  net::network_names names() const override;
  std::string address() const override { return connector_.address(); }
  using net::fabric::make_device;
  std::unique_ptr<net::device> make_device(int index, net::device_config& config) override;
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
  const chosen_port& card() const noexcept { return card_; }
  ibv_pd* pd() const noexcept { return pd_.get(); }
  // The other cards.
  const std::vector<rail>& rails() const noexcept { return rails_; }
  std::size_t rail_least() const noexcept { return rail_least_; }
  regions& memory() noexcept { return memory_; }
  connector& calls() noexcept { return connector_; }
  lookups& keys() noexcept { return lookups_; }
  // Why the cards are of no use any more, for good, as far as that was heard; null: they are.
  const char* failure() const noexcept {
    return failure_.load(std::memory_order_relaxed);  // a literal
  }
  // The same, once what the cards say of themselves was read; that is logged.
  const char* find_failure() noexcept;
  // The port of that card (0: the first) is down, and was for so long that the card should have
  // given up what it tried to send before `then`.
  bool is_beyond_hope(std::size_t card, std::uint64_t then, std::uint64_t now) noexcept;

 private:
  fabric(const net::fabric_config& config, std::vector<chosen_port> cards);
  const chosen_port& card_at(std::size_t i) const noexcept {
    return i == 0 ? card_ : rails_[i - 1].card;
  }
  void take_events(std::size_t card) noexcept;
  void note_port(std::size_t card, bool is_down) noexcept;
  void check_address(const chosen_port& card) noexcept;
  void fail(const char* reason) noexcept;

  const net::fabric_config config_;
  const chosen_port card_;
  const pd_handle pd_;
  const std::vector<rail> rails_;
  const std::size_t rail_least_;
  const near_cards near_;
  net::capabilities caps_;
  regions memory_;
  connector connector_;
  lookups lookups_;
  net::connected::device_list<port> ports_{"ibv"};
  std::mutex events_mutex_;
  std::atomic<const char*> failure_{nullptr};
  std::array<std::atomic<std::uint64_t>, MAX_RAILS> down_since_{};  // by card; 0: its port is up
};

}  // namespace lci::ibv
