// Unreliable datagrams: delivered, unless the test wants them lost, twice or late, or nobody takes
// them.
#include "tests/support/fake_ibv/state.hpp"

namespace lci::test::fake {
namespace {

constexpr std::size_t HEADER = 40;

void deliver(const network::datagram& what) {
  const auto at = net().pairs.find(what.to);
  if (at == net().pairs.end()) return;
  queue_pair& q = *at->second;
  if (q.qp_type != IBV_QPT_UD || q.owner()->is_dead || q.receives.empty() ||
      (q.state != IBV_QPS_RTR && q.state != IBV_QPS_RTS))
    return;
  const receive r = q.receives.front();
  q.receives.pop_front();
  ibv_wc wc{};
  wc.status = IBV_WC_SUCCESS;
  wc.opcode = IBV_WC_RECV;
  wc.wc_flags = IBV_WC_GRH;
  wc.byte_len = static_cast<std::uint32_t>(HEADER + what.bytes.size());
  std::vector<std::byte> all(HEADER, std::byte{0xee});
  all.insert(all.end(), what.bytes.begin(), what.bytes.end());
  if (all.size() > size_of(r.parts))
    wc.status = IBV_WC_LOC_LEN_ERR;
  else if (!scatter(q, r.parts, all.data(), all.size()))
    wc.status = IBV_WC_LOC_PROT_ERR;
  complete_receive(q, r, wc);
}

}  // namespace

void send_datagram(queue_pair& q, request& r, const ibv_send_wr& wr) {
  network& all = net();
  network::datagram what{wr.wr.ud.remote_qpn, {}};
  if (!gather(q, r, what.bytes)) return complete_send(q, r, IBV_WC_LOC_PROT_ERR);
  if (q.signals_all || (r.flags & IBV_SEND_SIGNALED) != 0) complete_send(q, r, IBV_WC_SUCCESS);
  const auto to = all.pairs.find(what.to);
  if (to == all.pairs.end() || q.owner()->is_dead || all.one_in(all.config.lose) ||
      to->second->attr.qkey != wr.wr.ud.remote_qkey || to->second->attr.port_num == 0 ||
      !is_at(*to->second, static_cast<address*>(wr.wr.ud.ah)->to))
    return;
  const bool is_twice = all.one_in(all.config.repeat);
  if (all.one_in(all.config.hold)) {
    all.held.push_back(what);
  } else {
    deliver(what);
    deliver_held();
  }
  if (is_twice) deliver(what);
}

void deliver_held() {
  const auto late = std::move(net().held);
  net().held.clear();
  for (const network::datagram& one : late) deliver(one);
}

}  // namespace lci::test::fake
