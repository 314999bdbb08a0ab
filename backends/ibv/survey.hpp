// What verbs ports this machine has, and whether each can be used: states, rates, GIDs. Which of
// them is used is select's matter. Callers: select. Threads: any. Always true: every port of every
// device is told of, those that cannot be used with the reason; no context stays open.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "backends/ibv/library.hpp"

namespace lci::ibv {

// One GID of a port, as it bears on the choice.
struct gid_row {
  int index = 0;
  ibv_gid gid{};
  ibv_gid_type type = IBV_GID_TYPE_IB;
};

struct port_settings {
  std::string device_name;  // "mlx5_0" or "mlx5_0:1", or several with commas; empty: the best
  int gid_index = -1;       // -1: choose
  bool wants_gid = false;   // also on InfiniBand
  int local_rank = 0;
  std::size_t rails = 1;  // cards to be used together; 0: all that are as good
};

struct port_facts;
// Whether that word means that port.
bool is_named(std::string_view word, const port_facts& port) noexcept;

// A port, with what connections need.
struct port_facts {
  std::string device;       // "mlx5_0"
  std::string name;         // "mlx5_0:1"; the device's, if it told us of no port
  std::uint8_t number = 0;  // 0: the device told us of no port
  ibv_device_attr limits{};
  ibv_port_attr state{};
  bool is_ethernet = false;
  gid_row gid;
  bool has_gid = false;  // false: LIDs alone, without GRH
  std::string why_gid;   // for lci_info and the log
  std::string pci;       // the card's address; empty: it is no PCI function
  std::string network;   // the same word for ports that reach each other
  std::string why_not;   // not empty: it cannot be used, for this reason
};

// The devices of this machine; the library's list lives as long as this.
class device_list {
 public:
  device_list();
  ~device_list();
  device_list(const device_list&) = delete;
  device_list& operator=(const device_list&) = delete;
  ibv_device** begin() const noexcept { return all_; }
  ibv_device** end() const noexcept { return all_ + count_; }

 private:
  int count_ = 0;
  ibv_device** all_;
};

// All ports, in the library's order. The library was found before.
std::vector<port_facts> survey(const port_settings& settings);

// The best GID: RoCE v2 before v1, an IPv4 address before a global IPv6 one, that before a
// link-local one. Null if there is none. `why` says what decided.
const gid_row* choose_gid(const std::vector<gid_row>& rows, std::string& why);

// Whether the port carries something now, as far as can be asked.
bool is_up(ibv_context* context, const port_facts& then) noexcept;
// Whether the port has another address now than what was surveyed and is used. What others have
// besides is no matter.
bool has_moved(ibv_context* context, const port_facts& then) noexcept;
// Bits per second of a port in its present state.
std::uint64_t rate_of(const ibv_port_attr& port) noexcept;
// "fe80::1" or "10.0.0.1".
std::string text_of(const ibv_gid& gid);
// "Ethernet, active, 100 Gbit/s, GID 3 10.0.0.1 (RoCE v2, an IPv4 address)".
std::string describe(const port_facts& port);

}  // namespace lci::ibv
