#include "backends/ibv/survey.hpp"

#include <arpa/inet.h>
#include <ifaddrs.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <utility>

#include "backends/ibv/handles.hpp"
#include "lci/base/env.hpp"
#include "lci/net/topology.hpp"

namespace lci::ibv {
namespace {

constexpr std::uint8_t V4_MAPPED[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
bool is_v4(const ibv_gid& gid) noexcept {
  return std::memcmp(gid.raw, V4_MAPPED, sizeof(V4_MAPPED)) == 0;
}
bool is_link_local(const ibv_gid& gid) noexcept { return gid.raw[0] == 0xfe && gid.raw[1] == 0x80; }
bool is_empty(const ibv_gid& gid) noexcept {
  return std::all_of(std::begin(gid.raw), std::end(gid.raw), [](std::uint8_t b) { return b == 0; });
}

int score_of(const gid_row& row) noexcept {
  int score = row.type == IBV_GID_TYPE_ROCE_V2 ? 8 : 0;
  if (is_v4(row.gid))
    score += 4;
  else if (!is_link_local(row.gid))
    score += 2;
  return score + 1;
}

// In one call for all ports; false where library or kernel does not have it.
bool read_table(ibv_context* context, const port_facts& port, std::vector<gid_row>& rows) {
  if (library().query_gid_table == nullptr) return false;
  std::vector<ibv_gid_entry> all(static_cast<std::size_t>(port.state.gid_tbl_len) *
                                 port.limits.phys_port_cnt);
  const ssize_t count =
      library().query_gid_table(context, all.data(), all.size(), 0, sizeof(ibv_gid_entry));
  if (count < 0) return false;
  all.resize(static_cast<std::size_t>(count));
  for (const ibv_gid_entry& one : all)
    if (one.port_num == port.number)
      rows.push_back(
          {static_cast<int>(one.gid_index), one.gid, static_cast<ibv_gid_type>(one.gid_type)});
  return true;
}

// Row by row the types are not known; RoCE v2 is what every later card speaks.
std::vector<gid_row> gids_of(ibv_context* context, const port_facts& port) {
  std::vector<gid_row> rows;
  if (!read_table(context, port, rows)) {
    const ibv_gid_type type = port.is_ethernet ? IBV_GID_TYPE_ROCE_V2 : IBV_GID_TYPE_IB;
    for (int i = 0; i < port.state.gid_tbl_len; ++i) {
      gid_row row{i, {}, type};
      if (library().query_gid(context, port.number, i, &row.gid) == 0) rows.push_back(row);
    }
  }
  std::erase_if(rows, [](const gid_row& row) { return is_empty(row.gid); });
  return rows;
}

// Fills in the GID, or the reason why the port cannot be used without one.
void take_gid(ibv_context* context, port_facts& port, const port_settings& settings) {
  const std::vector<gid_row> rows = gids_of(context, port);
  if (settings.gid_index >= 0) {
    const auto at = std::find_if(rows.begin(), rows.end(),
                                 [&](const gid_row& r) { return r.index == settings.gid_index; });
    if (at == rows.end()) {
      port.why_not = "GID index " + std::to_string(settings.gid_index) + " (ibv_gid_idx) is empty";
      return;
    }
    port.gid = *at;
    port.has_gid = true;
    port.why_gid = "as ibv_gid_idx says";
    return;
  }
  if (!port.is_ethernet && !settings.wants_gid) {
    port.why_gid = "none: LIDs are enough within an InfiniBand subnet";
    if (!rows.empty()) port.gid = rows.front();
    return;
  }
  const gid_row* const best = choose_gid(rows, port.why_gid);
  if (best == nullptr) {
    port.why_not = "it has no GID: give its network interface an address";
    return;
  }
  port.gid = *best;
  port.has_gid = true;
}

bool names(const std::string& wanted, const port_facts& port) {
  bool is_there = wanted.empty();
  base::env::for_each_entry(
      wanted, ",", [&](std::string_view word) { is_there = is_there || is_named(word, port); });
  return is_there;
}

// _compat_ibv_port_attr is the beginning of ibv_port_attr; what lies behind stays 0.
int query_port(ibv_context* context, int port, ibv_port_attr& out) {
  out = {};
  return library().query_port(context, static_cast<std::uint8_t>(port),
                              reinterpret_cast<_compat_ibv_port_attr*>(&out));
}

const char* name_of(ibv_port_state state) noexcept {
  switch (state) {
    case IBV_PORT_DOWN:
      return "down";
    case IBV_PORT_INIT:
      return "initializing (no subnet manager?)";
    case IBV_PORT_ARMED:
      return "armed";
    case IBV_PORT_ACTIVE:
      return "active";
    case IBV_PORT_ACTIVE_DEFER:
      return "active, deferred";
    default:
      return "in an unknown state";
  }
}

// "10.1.0.0/16" for the address of an interface; "IPv4" where none has it.
std::string subnet_of(const ibv_gid& gid) {
  in_addr wanted{};
  std::memcpy(&wanted, gid.raw + 12, sizeof(wanted));
  std::string out = "IPv4";
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return out;
  for (const ifaddrs* one = all; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr || one->ifa_netmask == nullptr ||
        one->ifa_addr->sa_family != AF_INET)
      continue;
    sockaddr_in address{}, mask{};
    std::memcpy(&address, one->ifa_addr, sizeof(address));
    std::memcpy(&mask, one->ifa_netmask, sizeof(mask));
    if (address.sin_addr.s_addr != wanted.s_addr) continue;
    address.sin_addr.s_addr &= mask.sin_addr.s_addr;
    char text[INET_ADDRSTRLEN] = "";
    inet_ntop(AF_INET, &address.sin_addr, text, sizeof(text));
    out = std::string(text) + "/" + std::to_string(std::popcount(mask.sin_addr.s_addr));
    break;
  }
  freeifaddrs(all);
  return out;
}

// A port on the same network can be reached. Of routes between subnets nothing is known here.
std::string network_of(const port_facts& port) {
  ibv_gid prefix{};
  std::memcpy(prefix.raw, port.gid.gid.raw, 8);
  if (!port.is_ethernet) return "InfiniBand subnet " + text_of(prefix);
  if (port.gid.type != IBV_GID_TYPE_ROCE_V2) return "RoCE v1";
  return "RoCE v2 " + (is_v4(port.gid.gid) ? subnet_of(port.gid.gid) : text_of(prefix) + "/64");
}

// Null: its queue pairs are of the sort that we need.
const char* refuse(ibv_transport_type transport) noexcept {
  if (transport == IBV_TRANSPORT_IB) return nullptr;
  return transport == IBV_TRANSPORT_IWARP
             ? "it speaks iWARP, which has no datagrams and no immediate data"
             : "it has no reliable connections, as EFA has none; libfabric is for such cards";
}

void look_at_port(ibv_context* context, port_facts& port, const port_settings& settings) {
  const int rc = query_port(context, port.number, port.state);
  port.is_ethernet = port.state.link_layer == IBV_LINK_LAYER_ETHERNET;
  if (rc != 0)
    port.why_not = std::string("the port cannot be queried (") + std::strerror(rc) + ")";
  else if (port.state.state == IBV_PORT_ACTIVE)
    take_gid(context, port, settings);
  else
    port.why_not = "the port is not active";
  if (port.why_not.empty()) port.network = network_of(port);
  if (!names(settings.device_name, port))
    port.why_not = "device_name asks for " + settings.device_name;
}

void look_at(ibv_device* device, const port_settings& settings, std::vector<port_facts>& out) {
  port_facts about;
  about.name = about.device = device->name;
  about.pci = net::pci_address_behind(std::string(device->ibdev_path) + "/device");
  const auto give_up = [&](const char* what, int error) {
    about.why_not = std::string("it cannot be ") + what + " (" + std::strerror(error) + ")";
    out.push_back(about);
  };
  if (const char* const why_not = refuse(device->transport_type); why_not != nullptr) {
    about.why_not = why_not;
    out.push_back(about);
    return;
  }
  const context_handle context(library().open_device(device));
  if (!context) return give_up("opened", errno);
  if (const int rc = library().query_device(context.get(), &about.limits); rc != 0)
    return give_up("queried", rc);
  for (int number = 1; number <= about.limits.phys_port_cnt; ++number) {
    port_facts port = about;
    port.number = static_cast<std::uint8_t>(number);
    port.name += ":" + std::to_string(number);
    look_at_port(context.get(), port, settings);
    out.push_back(std::move(port));
  }
}

}  // namespace

bool is_named(std::string_view word, const port_facts& port) noexcept {
  return word == port.device || word == port.name;
}

device_list::device_list() : all_(library().get_device_list(&count_)) {
  if (all_ == nullptr) count_ = 0;
}

device_list::~device_list() {
  if (all_ != nullptr) library().free_device_list(all_);
}

std::vector<port_facts> survey(const port_settings& settings) {
  std::vector<port_facts> out;
  for (ibv_device* device : device_list()) look_at(device, settings, out);
  return out;
}

const gid_row* choose_gid(const std::vector<gid_row>& rows, std::string& why) {
  const gid_row* best = nullptr;
  for (const gid_row& row : rows) {
    if (best == nullptr || score_of(row) > score_of(*best)) best = &row;
  }
  if (best != nullptr) {
    why = std::string(best->type == IBV_GID_TYPE_ROCE_V2   ? "RoCE v2"
                      : best->type == IBV_GID_TYPE_ROCE_V1 ? "RoCE v1"
                                                           : "InfiniBand") +
          (is_v4(best->gid)           ? ", an IPv4 address"
           : is_link_local(best->gid) ? ", link-local: there is nothing better"
                                      : ", a global IPv6 address");
  }
  return best;
}

bool has_moved(ibv_context* context, const port_facts& then) noexcept {
  if (then.has_gid) {
    ibv_gid now{};
    // An entry that cannot be read is empty now.
    if (library().query_gid(context, then.number, then.gid.index, &now) != 0 ||
        std::memcmp(now.raw, then.gid.gid.raw, sizeof(now.raw)) != 0)
      return true;
  }
  ibv_port_attr now{};
  // 0: none is given at present. The next event is for the one that comes.
  return !then.is_ethernet && query_port(context, then.number, now) == 0 && now.lid != 0 &&
         now.lid != then.state.lid;
}

bool is_up(ibv_context* context, const port_facts& then) noexcept {
  ibv_port_attr now{};
  return query_port(context, then.number, now) != 0 || now.state == IBV_PORT_ACTIVE;
}

std::uint64_t rate_of(const ibv_port_attr& port) noexcept {
  // Widths and speeds are bits; gigabits per lane as the specification names them.
  const std::uint64_t lanes = port.active_width == 2    ? 4
                              : port.active_width == 4  ? 8
                              : port.active_width == 8  ? 12
                              : port.active_width == 16 ? 2
                                                        : 1;
  const std::uint64_t mbit = port.active_speed >= 128  ? 100000
                             : port.active_speed >= 64 ? 50000
                             : port.active_speed >= 32 ? 25000
                             : port.active_speed >= 16 ? 14000
                             : port.active_speed >= 4  ? 10000
                             : port.active_speed >= 2  ? 5000
                                                       : 2500;
  return lanes * mbit * 1000000;
}

std::string text_of(const ibv_gid& gid) {
  char text[INET6_ADDRSTRLEN] = "";
  if (is_v4(gid))
    inet_ntop(AF_INET, gid.raw + 12, text, sizeof(text));
  else
    inet_ntop(AF_INET6, gid.raw, text, sizeof(text));
  return text;
}

std::string describe(const port_facts& port) {
  if (port.number == 0) return "no port is known";
  std::string out = port.is_ethernet ? "Ethernet, " : "InfiniBand, ";
  out += name_of(port.state.state);
  const std::uint64_t mbit = rate_of(port.state) / 1000000;
  out += ", " + std::to_string(mbit / 1000) + (mbit % 1000 != 0 ? ".5" : "") + " Gbit/s";
  if (port.has_gid)
    out += ", GID " + std::to_string(port.gid.index) + " " + text_of(port.gid.gid) + " (" +
           port.why_gid + ")";
  else if (!port.why_gid.empty())
    out += ", LID " + std::to_string(port.state.lid) + ", GID " + port.why_gid;
  return out;
}

}  // namespace lci::ibv
