#include "backends/ibv/queue_pair.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

#include "backends/ibv/errors.hpp"

namespace lci::ibv {

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

void connect_queue_pair(connection& on, const pairing& to, const hello& said, std::uint32_t psn,
                        const patience& tries) {
  const ibv_device_attr& limits = to.mine.limits;
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RTR;
  attr.path_mtu = static_cast<ibv_mtu>(std::clamp<std::uint8_t>(
      std::min(to.theirs.mtu, static_cast<std::uint8_t>(to.mine.state.active_mtu)), IBV_MTU_256,
      IBV_MTU_4096));
  attr.dest_qp_num = to.qpn;
  attr.rq_psn = said.psn & 0xffffff;
  attr.max_dest_rd_atomic = static_cast<std::uint8_t>(std::min(limits.max_qp_rd_atom, 16));
  attr.min_rnr_timer = 12;  // 0.64 ms
  attr.ah_attr = path_to(to.theirs, to.mine);
  int rc = 0;
  // An attempt that ended between the two steps goes on with the second.
  if (on.qp->state != IBV_QPS_RTR)
    rc = library().modify_qp(on.qp.get(), &attr,
                             IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                 IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
  if (rc != 0)
    throw_error("ibv_modify_qp to ready-to-receive",
                to.mine.name + ", rank " + std::to_string(on.rank), rc);
  attr.qp_state = IBV_QPS_RTS;
  attr.timeout = tries.timeout;
  attr.retry_cnt = tries.retries;
  attr.rnr_retry = 7;  // for ever: a receiver that computes is not dead
  attr.sq_psn = psn;
  attr.max_rd_atomic = static_cast<std::uint8_t>(
      std::clamp<int>(std::min<int>(limits.max_qp_init_rd_atom, said.reads), 1, 16));
  rc = library().modify_qp(on.qp.get(), &attr,
                           IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                               IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
  if (rc != 0)
    throw_error("ibv_modify_qp to ready-to-send",
                to.mine.name + ", rank " + std::to_string(on.rank), rc);
  on.peer_qpn = to.qpn;
}

void stop_queue_pair(connection& on) noexcept {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_ERR;
  on.is_stopped = library().modify_qp(on.qp.get(), &attr, IBV_QP_STATE) == 0;
}

}  // namespace lci::ibv
