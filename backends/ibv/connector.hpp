// Hellos over verbs: datagrams over one unreliable queue pair, whose address every rank knows from
// the start. Owned by fabric; called from polls. Threads: as connected::connector says. Always
// true: a connection is made once both sides have said their queue pair and each was told that the
// other knows it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backends/ibv/cards.hpp"
#include "backends/ibv/contacts.hpp"
#include "backends/ibv/device_queues.hpp"
#include "backends/ibv/region.hpp"
#include "backends/ibv/wire.hpp"
#include "lci/net/connected/connector.hpp"

namespace lci::ibv {

class connector final : public net::connected::connector<connector, device_queues, hello, contact> {
 public:
  static constexpr char NAME[] = "ibv";

  connector(cards& on, regions& memory);

  std::string address() const { return here_.text(); }
  // As contacts says.
  bool directory_of(int rank, std::uint64_t& address, std::uint32_t& key) const noexcept {
    return contacts_.directory_of(rank, address, key);
  }
  bool has_died(int rank) const noexcept { return contacts_.has_died(rank); }

 private:
  friend net::connected::connector<connector, device_queues, hello, contact>;
  static constexpr std::uint32_t RECEIVES = 256;
  static constexpr std::uint32_t SENDS = 32;
  static constexpr std::size_t GRH = 40;  // in front of each datagram
  static constexpr std::size_t CELL = 256;
  static_assert(CELL >= GRH + sizeof(hello));
  // So that all cells lie in one span: what is registered for receives is for the others, too.
  static_assert(CELL * (RECEIVES + SENDS) <= mem::arena::SPAN);

  std::uint64_t id() const noexcept { return here_.id; }
  void open_queue();
  int start_queue() noexcept;
  void restart_queue();
  void free_all_cells();
  void post_receives();
  void read_hellos();
  contact* sender_of(const hello& said);
  bool take_up(connection& on, device_queues& q, const hello& said, contact& who);
  static bool is_about(const connection& on, const hello& said) noexcept {
    return on.peer_qpn == 0 || on.peer_qpn == said.qpn;
  }
  static bool knows_us(const connection& on, const hello& said) noexcept {
    return said.echo == on.qp->qp_num;
  }
  hello hello_to(const contact& who, const device_queues& q, std::uint8_t flags) const noexcept;
  bool say(connection& on, device_queues& q, std::uint8_t flags);
  void refuse(int rank, const device_queues& q);
  void disconnect_called();
  bool send(const hello& what, contact& to);
  void post_receive(std::uint32_t cell);

  cards& cards_;
  const chosen_port& where_;
  regions& memory_;
  mem::arena& arena_;
  fabric_address here_;
  const mem::arena_block block_;
  std::byte* const cells_;  // RECEIVES, then SENDS
  cq_handle cq_;
  qp_handle qp_;
  contacts contacts_;
  std::vector<std::uint32_t> free_sends_, free_receives_;  // under mutex_
  bool is_broken_ = false;                                 // the queue pair; under mutex_
};

}  // namespace lci::ibv
