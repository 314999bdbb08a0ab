// How connections come about: datagrams over one unreliable queue pair, whose address every rank
// knows from the start. Nothing is connected before it is used. Owned by fabric; called from polls
// and, for first contact, posts (which only leave a wish). Threads: look() shared, one inside at a
// time; the rest single. Always true: a connection is made once both sides have said their queue
// pair and each has heard that the other knows it; every hello can be lost, repeated or late.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "backends/ibv/contacts.hpp"
#include "backends/ibv/link.hpp"
#include "backends/ibv/region.hpp"
#include "backends/ibv/select.hpp"
#include "backends/ibv/wire.hpp"
#include "lci/base/platform.hpp"
#include "lci/net/connected/caller.hpp"

namespace lci::ibv {

class port;
struct rail;

// How long the card tries before it calls a peer gone: (retries + 1) * 4.096 us * 2^timeout.
struct patience {
  std::uint8_t timeout = 16;  // 268 ms
  std::uint8_t retries = 6;   // 7 would mean "for ever" on soft-RoCE
  // LCI_IBV_TIMEOUT (1..31) and LCI_IBV_RETRY (0..7). Throws argument_error.
  static patience from_environment();
  std::uint64_t ticks() const noexcept {
    return (retries + 1u) * (std::uint64_t{4096} << timeout) / 1'000'000 * base::ticks_per_ms();
  }
};

class connector {
 public:
  connector(const chosen_port& where, ibv_pd* pd, const std::vector<rail>& rails, regions& memory,
            net::address_book& book, mem::arena& arena);
  connector(const connector&) = delete;
  connector& operator=(const connector&) = delete;

  const fabric_address& here() const noexcept { return here_; }
  std::string address() const { return here_.text(); }
  // Ports that can be called. They outlive the connector's last look().
  void add_port(port& p);
  // Takes leave of whoever was called and is not connected yet. A datagram may be lost, so it goes
  // out several times; whoever hears none of them will miss us.
  void leave() noexcept;
  // Reads hellos and repeats ours. Another thread that is inside already will do.
  void look() noexcept;
  // A post found no connection.
  void request() noexcept { caller_.request(); }
  bool has_work() const noexcept { return caller_.has_work(); }
  // As contacts says.
  bool directory_of(int rank, std::uint64_t& address, std::uint32_t& key) const noexcept {
    return contacts_.directory_of(rank, address, key);
  }
  bool has_died(int rank) const noexcept { return contacts_.has_died(rank); }
  const patience& tries() const noexcept { return patience_; }

 private:
  static constexpr std::uint32_t RECEIVES = 256;
  static constexpr std::uint32_t SENDS = 32;
  static constexpr std::size_t GRH = 40;  // in front of each datagram
  static constexpr std::size_t CELL = 256;
  static_assert(CELL >= GRH + sizeof(hello));
  // So that all cells lie in one span: what is registered for receives is for the others, too.
  static_assert(CELL * (RECEIVES + SENDS) <= mem::arena::SPAN);

  void open_queue();
  void read_hellos();
  void hear(const hello& said);
  void take(const hello& said, port& p);
  void turn_away(link& on, const port& p) noexcept;
  void accept(link& on, const port& p, const hello& said, const contact& who);
  void call(link& on, const port& p);
  void say(link& on, const port& p, std::uint8_t flags);
  bool send(const hello& what, contact& to);
  void post_receive(std::uint32_t cell);
  // One queue pair of ours and one of theirs.
  struct pairing {
    const chosen_port& mine;
    place theirs;
    std::uint32_t qpn;
  };
  void connect(link& on, const pairing& to, const hello& said, std::uint32_t psn);

  const chosen_port& where_;
  ibv_pd* const pd_;
  const std::vector<rail>& rails_;
  regions& memory_;
  net::address_book& book_;
  mem::arena& arena_;
  const patience patience_;
  fabric_address here_;
  const mem::arena_block block_;
  std::byte* const cells_;  // RECEIVES, then SENDS
  cq_handle cq_;
  qp_handle qp_;
  contacts contacts_;

  using calls = net::connected::caller<link, port>;
  calls caller_{"ibv"};  // under mutex_, but for what is shared
  std::mutex mutex_;     // guards everything below
  std::vector<std::uint32_t> free_sends_, free_receives_;
};

}  // namespace lci::ibv
