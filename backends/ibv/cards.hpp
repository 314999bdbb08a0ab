// The cards that are used, opened: what they can do, and whether they still work. Owned by fabric,
// which all else in this folder comes after. Callers: fabric; the polling threads ask whether cards
// have failed. Threads: shared. Always true: a card that has failed stays so.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "backends/ibv/select.hpp"
#include "backends/ibv/wire.hpp"
#include "lci/base/platform.hpp"
#include "lci/net/backend.hpp"

namespace lci::ibv {

// How long the card tries before it calls a peer failed: (retries + 1) * 4.096 us * 2^timeout.
struct patience {
  std::uint8_t timeout = 16;  // 268 ms
  std::uint8_t retries = 6;   // 7 would mean "for ever" on soft-RoCE
  // LCI_IBV_TIMEOUT (1..31) and LCI_IBV_RETRY (0..7). Throws argument_error.
  static patience from_environment();
  std::uint64_t ticks() const noexcept {
    return (retries + 1u) * (std::uint64_t{4096} << timeout) / 1'000'000 * base::ticks_per_ms();
  }
};

// A card beside the first.
struct rail {
  chosen_port card;
  pd_handle pd;
};

class cards {
 public:
  explicit cards(const net::fabric_config& config);  // throws backend_error
  cards(const cards&) = delete;
  cards& operator=(const cards&) = delete;

  const net::fabric_config& config() const noexcept { return config_; }
  const net::capabilities& caps() const noexcept { return caps_; }
  const chosen_port& first() const noexcept { return first_; }
  ibv_pd* pd() const noexcept { return pd_.get(); }
  // The other cards, where several are used together (multi_rail).
  const std::vector<rail>& rails() const noexcept { return rails_; }
  const patience& tries() const noexcept { return patience_; }
  std::string names() const;
  // Why the cards are of no use any more, for good, as far as is known, in a literal; null: they
  // are.
  const std::atomic<const char*>& failure() const noexcept { return failure_; }
  // The same, once what the cards say of themselves was read; that is logged.
  const char* find_failure() noexcept;
  // They are of no use any more. reason: a literal; the first one counts.
  void fail(const char* reason) noexcept;
  // The port of that card (0: the first) is down, and was for so long that the card should have
  // given up what it tried to send before `then`.
  bool is_beyond_hope(std::size_t card, std::uint64_t then, std::uint64_t now) noexcept;

 private:
  cards(const net::fabric_config& config, std::vector<chosen_port> ports);
  const chosen_port& at(std::size_t i) const noexcept {
    return i == 0 ? first_ : rails_[i - 1].card;
  }
  void take_events(std::size_t card) noexcept;
  void note_port(std::size_t card, bool is_down) noexcept;
  void check_address(const chosen_port& card) noexcept;

  const net::fabric_config config_;
  const patience patience_;
  const chosen_port first_;
  const pd_handle pd_;
  const std::vector<rail> rails_;
  net::capabilities caps_;
  std::mutex events_mutex_;
  std::atomic<const char*> failure_{nullptr};
  std::array<std::atomic<std::uint64_t>, MAX_RAILS> down_since_{};  // by card; 0: its port is up
};

}  // namespace lci::ibv
