// The part of the connector that connects queue pairs, once both sides' numbers are known.
#include <algorithm>

#include "backends/ibv/connector.hpp"
#include "backends/ibv/side.hpp"

namespace lci::ibv {

// Our queue pairs get to know the peer's: those on other cards first, so that all are connected
// once the one that messages take is.
void connector::accept(connection& on, device_queues& q, const hello& said, const contact& who) {
  for (std::size_t i = 0; i < std::min<std::size_t>(cards_.rails().size(), said.rails); ++i) {
    connection* const beside = q.sides()[i]->find(on.rank);
    if (beside == nullptr || said.others[i].qpn == 0) continue;
    if (beside->peer_qpn == 0)
      connect(*beside, {cards_.rails()[i].card, said.others[i].where, said.others[i].qpn}, said,
              on.psn);
    beside->move(connection::stage::ready);
    on.rails |= 2u << i;
  }
  connect(on, {where_, who.address.where, said.qpn}, said, on.psn);
}

void connector::connect(connection& on, const pairing& to, const hello& said, std::uint32_t psn) {
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
  attr.timeout = cards_.tries().timeout;
  attr.retry_cnt = cards_.tries().retries;
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

}  // namespace lci::ibv
