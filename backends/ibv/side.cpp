#include "backends/ibv/side.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

namespace lci::ibv {
namespace {

constexpr std::uint32_t CONNECTIONS_OF_A_SIDE = 4;

std::uint32_t first_entries(const rail& on, std::uint32_t depth) {
  return std::min(depth * CONNECTIONS_OF_A_SIDE,
                  static_cast<std::uint32_t>(on.card.limits.max_cqe));
}

}  // namespace

place place_of(const chosen_port& card) noexcept {
  place out;
  std::memcpy(out.gid, card.gid.gid.raw, sizeof(out.gid));
  out.lid = card.state.lid;
  out.has_gid = card.has_gid ? 1 : 0;
  out.mtu = static_cast<std::uint8_t>(card.state.active_mtu);
  return out;
}

ibv_ah_attr path_to(const place& where, const chosen_port& from) noexcept {
  ibv_ah_attr path{};
  path.dlid = where.lid;
  path.port_num = from.number;
  if (from.has_gid) {
    path.is_global = 1;
    std::memcpy(path.grh.dgid.raw, where.gid, sizeof(where.gid));
    path.grh.sgid_index = static_cast<std::uint8_t>(from.gid.index);
    path.grh.hop_limit = 64;
  }
  return path;
}

qp_handle make_queue_pair(const chosen_port& card, ibv_pd* pd, ibv_qp_init_attr& made, int rank) {
  made.qp_type = IBV_QPT_RC;
  qp_handle qp(library().create_qp(pd, &made));
  if (!qp) throw_error("ibv_create_qp", card.name + ", for rank " + std::to_string(rank), errno);
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = card.number;
  attr.qp_access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
  if (const int rc = library().modify_qp(
          qp.get(), &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
      rc != 0)
    throw_error("ibv_modify_qp to init", card.name + ", rank " + std::to_string(rank), rc);
  return qp;
}

side::side(const rail& on, std::uint32_t depth, std::size_t ranks)
    : rail_(on),
      depth_(std::min(depth, static_cast<std::uint32_t>(on.card.limits.max_qp_wr))),
      cq_(on.card, first_entries(on, depth_)),
      by_qpn_(ranks),
      connections_(ranks) {}

connection& side::make_connection(int rank) {
  if (connection* const known = find(rank); known != nullptr) return *known;
  cq_.make_room(store_.size() + 1, depth_);
  ibv_qp_init_attr made{};
  made.send_cq = made.recv_cq = cq_.queue();
  made.cap.max_send_wr = depth_;
  made.cap.max_recv_wr = made.cap.max_recv_sge = 1;  // of which nothing is ever posted
  made.cap.max_send_sge = 2;
  qp_handle qp = make_queue_pair(rail_.card, rail_.pd.get(), made, rank);
  store_.push_back(std::make_unique<connection>(rank, std::move(qp), 0, depth_, 0));
  connection& out = *store_.back();
  by_qpn_.enter(out);
  // edge ibv.side: partner is find().
  connections_[static_cast<std::size_t>(rank)].store(&out, std::memory_order_release);
  return out;
}

}  // namespace lci::ibv
