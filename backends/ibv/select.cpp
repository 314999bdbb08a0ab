#include "backends/ibv/select.hpp"

#include <arpa/inet.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "backends/ibv/fabric.hpp"
#include "lci/errors.hpp"

namespace lci::ibv {
namespace {

// The devices of this machine; the library's list lives as long as this.
class device_list {
 public:
  device_list() : all_(library().get_device_list(&count_)) {
    if (all_ == nullptr) count_ = 0;
  }
  ~device_list() {
    if (all_ != nullptr) library().free_device_list(all_);
  }
  device_list(const device_list&) = delete;
  device_list& operator=(const device_list&) = delete;
  ibv_device** begin() const noexcept { return all_; }
  ibv_device** end() const noexcept { return all_ + count_; }

 private:
  int count_ = 0;
  ibv_device** all_;
};

std::string probe() {
  std::string why_not;
  if (find_library(why_not) == nullptr) return why_not;
  try {
    open_best_port({});
  } catch (const std::exception& problem) {
    return problem.what();
  }
  return {};
}

std::unique_ptr<net::fabric> open(const net::fabric_config& config) {
  return std::make_unique<fabric>(config);
}

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

// Without the newer call the types are not known; RoCE v2 is what every later card speaks.
std::vector<gid_row> gids_of(ibv_context* context, std::uint8_t port, const ibv_port_attr& state) {
  std::vector<gid_row> rows;
  const bool is_ethernet = state.link_layer == IBV_LINK_LAYER_ETHERNET;
  for (int i = 0; i < state.gid_tbl_len; ++i) {
    gid_row row;
    row.index = i;
    row.type = is_ethernet ? IBV_GID_TYPE_ROCE_V2 : IBV_GID_TYPE_IB;
    if (library().query_gid_ex != nullptr) {
      ibv_gid_entry entry{};
      if (library().query_gid_ex(context, port, static_cast<std::uint32_t>(i), &entry, 0,
                                 sizeof(entry)) != 0)
        continue;
      row.gid = entry.gid;
      row.type = static_cast<ibv_gid_type>(entry.gid_type);
    } else if (library().query_gid(context, port, i, &row.gid) != 0) {
      continue;
    }
    if (!is_empty(row.gid)) rows.push_back(row);
  }
  return rows;
}

// Fills in the GID; false with the reason when the port cannot be used without one.
bool take_gid(chosen_port& port, const port_wishes& wishes, std::string& why_not) {
  const std::vector<gid_row> rows = gids_of(port.context.get(), port.number, port.state);
  if (wishes.gid_index >= 0) {
    const auto at = std::find_if(rows.begin(), rows.end(),
                                 [&](const gid_row& r) { return r.index == wishes.gid_index; });
    if (at == rows.end()) {
      why_not = "GID index " + std::to_string(wishes.gid_index) + " (ibv_gid_idx) is empty";
      return false;
    }
    port.gid = *at;
    port.has_gid = true;
    port.why_gid = "as ibv_gid_idx says";
    return true;
  }
  if (!port.is_ethernet && !wishes.wants_gid) {
    port.why_gid = "none: LIDs are enough within an InfiniBand subnet";
    if (!rows.empty()) port.gid = rows.front();
    return true;
  }
  const gid_row* const best = choose_gid(rows, port.why_gid);
  if (best == nullptr) {
    why_not = "it has no GID: give its network interface an address";
    return false;
  }
  port.gid = *best;
  port.has_gid = true;
  return true;
}

bool names(const std::string& wanted, const std::string& device, int port) {
  return wanted.empty() || wanted == device || wanted == device + ":" + std::to_string(port);
}

// _compat_ibv_port_attr is the beginning of ibv_port_attr; what lies behind stays 0.
int query_port(ibv_context* context, int port, ibv_port_attr& out) {
  out = {};
  return library().query_port(context, static_cast<std::uint8_t>(port),
                              reinterpret_cast<_compat_ibv_port_attr*>(&out));
}

// The best port of one device so far; reasons for what was left out go to `reasons`.
void look_at(ibv_device* device, const port_wishes& wishes, chosen_port& best,
             std::string& reasons) {
  const std::string name = device->name;
  const auto leave_out = [&](const std::string& what, const std::string& why) {
    reasons += "; " + what + ": " + why;
  };
  context_handle context(library().open_device(device));
  if (!context)
    return leave_out(name, std::string("it cannot be opened (") + std::strerror(errno) + ")");
  ibv_device_attr limits{};
  if (const int rc = library().query_device(context.get(), &limits); rc != 0)
    return leave_out(name, std::string("it cannot be queried (") + std::strerror(rc) + ")");
  for (int port = 1; port <= limits.phys_port_cnt; ++port) {
    const std::string full = name + ":" + std::to_string(port);
    chosen_port one;
    if (!names(wishes.device_name, name, port)) {
      leave_out(full, "device_name asks for " + wishes.device_name);
      continue;
    }
    if (query_port(context.get(), port, one.state) != 0 || one.state.state != IBV_PORT_ACTIVE) {
      leave_out(full, "the port is not active");
      continue;
    }
    if (best.context && rate_of(one.state) <= rate_of(best.state)) continue;
    // A context of its own, since each choice owns one.
    one.context = context_handle(library().open_device(device));
    if (!one.context) continue;
    one.name = full;
    one.limits = limits;
    one.number = static_cast<std::uint8_t>(port);
    one.is_ethernet = one.state.link_layer == IBV_LINK_LAYER_ETHERNET;
    std::string why_not;
    if (take_gid(one, wishes, why_not))
      best = std::move(one);
    else
      leave_out(full, why_not);
  }
}

}  // namespace

const net::provider PROVIDER{"ibv", attr_backend_t::ibv, &probe, &open};

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

chosen_port open_best_port(const port_wishes& wishes) {
  std::string reasons;
  if (find_library(reasons) == nullptr) throw backend_error("ibv: " + reasons);
  const device_list all;
  chosen_port best;
  for (ibv_device* device : all) look_at(device, wishes, best, reasons);
  if (best.context) return best;
  if (reasons.empty()) throw backend_error("ibv: there is no verbs device on this machine");
  throw backend_error("ibv: no port can be used" + reasons);
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

}  // namespace lci::ibv
