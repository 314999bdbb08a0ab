// Which card, port and GID are used here, and why; or the sentence that says why none is. Callers:
// providers.cpp; fabric; lci_info. Threads: any.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backends/ibv/handles.hpp"
#include "lci/net/provider.hpp"

namespace lci::ibv {

extern const net::provider PROVIDER;

// One GID of a port, as it bears on the choice.
struct gid_row {
  int index = 0;
  ibv_gid gid{};
  ibv_gid_type type = IBV_GID_TYPE_IB;
};

// An open port with what connections need.
struct chosen_port {
  context_handle context;
  std::string name;  // "mlx5_0:1"
  ibv_device_attr limits{};
  ibv_port_attr state{};
  std::uint8_t number = 0;
  bool is_ethernet = false;
  gid_row gid;
  bool has_gid = false;  // false: LIDs alone, without GRH
  std::string why_gid;   // for lci_info and the log
};

struct port_wishes {
  std::string device_name;  // "mlx5_0" or "mlx5_0:1"; empty: the best
  int gid_index = -1;       // -1: choose
  bool wants_gid = false;   // also on InfiniBand
};

// The best GID: RoCE v2 before v1, an IPv4 address before a global IPv6 one, that before a
// link-local one. Null if there is none. `why` says what decided.
const gid_row* choose_gid(const std::vector<gid_row>& rows, std::string& why);

// Opens the best active port. Throws backend_error with the reason for each that was left out.
chosen_port open_best_port(const port_wishes& wishes);

// Bits per second of a port in its present state.
std::uint64_t rate_of(const ibv_port_attr& port) noexcept;
// "fe80::1" or "10.0.0.1".
std::string text_of(const ibv_gid& gid);

}  // namespace lci::ibv
