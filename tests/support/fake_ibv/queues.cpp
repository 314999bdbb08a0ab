// What the library exports about completion queues, receive queues and queue pairs.
#include <algorithm>
#include <cerrno>

#include "tests/support/fake_ibv/state.hpp"

namespace lci::test::fake {
namespace {

struct step {
  ibv_qp_type type;
  ibv_qp_state from, to;
  int needs;
};
constexpr step STEPS[] = {
    {IBV_QPT_RC, IBV_QPS_RESET, IBV_QPS_INIT,
     IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS},
    {IBV_QPT_RC, IBV_QPS_INIT, IBV_QPS_RTR,
     IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
         IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER},
    {IBV_QPT_RC, IBV_QPS_RTR, IBV_QPS_RTS,
     IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
         IBV_QP_MAX_QP_RD_ATOMIC},
    {IBV_QPT_UD, IBV_QPS_RESET, IBV_QPS_INIT,
     IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY},
    {IBV_QPT_UD, IBV_QPS_INIT, IBV_QPS_RTR, IBV_QP_STATE},
    {IBV_QPT_UD, IBV_QPS_RTR, IBV_QPS_RTS, IBV_QP_STATE | IBV_QP_SQ_PSN},
};

void keep(queue_pair& q, const ibv_qp_attr& a, int mask) {
  if ((mask & IBV_QP_PORT) != 0) q.attr.port_num = a.port_num;
  if ((mask & IBV_QP_QKEY) != 0) q.attr.qkey = a.qkey;
  if ((mask & IBV_QP_ACCESS_FLAGS) != 0) q.attr.qp_access_flags = a.qp_access_flags;
  if ((mask & IBV_QP_DEST_QPN) != 0) q.attr.dest_qp_num = a.dest_qp_num;
  if ((mask & IBV_QP_RQ_PSN) != 0) q.attr.rq_psn = a.rq_psn;
  if ((mask & IBV_QP_SQ_PSN) != 0) q.attr.sq_psn = a.sq_psn;
  if ((mask & IBV_QP_TIMEOUT) != 0) q.attr.timeout = a.timeout;
  if ((mask & IBV_QP_RETRY_CNT) != 0) q.attr.retry_cnt = a.retry_cnt;
  if ((mask & IBV_QP_AV) != 0) q.attr.ah_attr = a.ah_attr;
  if ((mask & IBV_QP_MAX_DEST_RD_ATOMIC) != 0) q.attr.max_dest_rd_atomic = a.max_dest_rd_atomic;
  if ((mask & IBV_QP_MAX_QP_RD_ATOMIC) != 0) q.attr.max_rd_atomic = a.max_rd_atomic;
}

// 0: the device can do that.
int check(const queue_pair& q, const ibv_qp_attr& a, int mask) {
  const fake_device& about = *q.owner()->about;
  const bool is_ok =
      ((mask & IBV_QP_PORT) == 0 || (a.port_num >= 1 && a.port_num <= about.ports.size())) &&
      ((mask & IBV_QP_AV) == 0 || is_usable(q, a.ah_attr)) &&
      ((mask & IBV_QP_RQ_PSN) == 0 || a.rq_psn >> 24 == 0) &&
      ((mask & IBV_QP_SQ_PSN) == 0 || a.sq_psn >> 24 == 0) &&
      ((mask & IBV_QP_PATH_MTU) == 0 ||
       (a.path_mtu >= IBV_MTU_256 && a.path_mtu <= IBV_MTU_4096)) &&
      ((mask & IBV_QP_MAX_DEST_RD_ATOMIC) == 0 || a.max_dest_rd_atomic <= about.max_qp_rd_atom) &&
      ((mask & IBV_QP_MAX_QP_RD_ATOMIC) == 0 || a.max_rd_atomic <= about.max_qp_init_rd_atom) &&
      ((mask & IBV_QP_TIMEOUT) == 0 || a.timeout < 32) &&
      ((mask & IBV_QP_RETRY_CNT) == 0 || a.retry_cnt < 8);
  return is_ok ? 0 : EINVAL;
}

// What was under way on it is gone, as are its completions; their receives stay used up.
void forget(queue_pair& q) {
  for (completion_queue* cq : {&q.sent(), &q.received()})
    std::erase_if(cq->entries, [&](const completion& one) { return one.of == &q; });
  net().pairs.erase(q.qp_num);
  net().waiting.erase(&q);
  net().flushing.erase(&q);
}

}  // namespace
}  // namespace lci::test::fake

using namespace lci::test;        // NOLINT: the names of the library follow
using namespace lci::test::fake;  // NOLINT

#define LCI_FAKE_ENTER(name, failed, ...)                                       \
  const std::lock_guard lock(net().lock);                                       \
  if (const int wanted = enter(name __VA_OPT__(, ) __VA_ARGS__); wanted != 0) { \
    errno = wanted;                                                             \
    return failed;                                                              \
  }

extern "C" {

ibv_cq* ibv_create_cq(ibv_context* c, int cqe, void* its, ibv_comp_channel* channel, int) {
  LCI_FAKE_ENTER("ibv_create_cq", nullptr, c)
  completion_queue* const out = make_queue(c, cqe, its, channel);
  return out == nullptr ? nullptr : ibv_cq_ex_to_cq(out);
}

#ifndef LCI_FAKE_IBV_BROKEN
int ibv_resize_cq(ibv_cq* cq, int cqe) {
  LCI_FAKE_ENTER("ibv_resize_cq", wanted, cq->context)
  completion_queue& q = queue_of(cq);
  if (cqe < static_cast<int>(q.entries.size()) || cqe > card_of(cq->context).about->max_cqe)
    return EINVAL;
  q.cqe = cqe;
  return 0;
}

#endif

int ibv_destroy_cq(ibv_cq* cq) {
  LCI_FAKE_ENTER("ibv_destroy_cq", wanted)
  completion_queue* const gone = &queue_of(cq);
  if (gone->users != 0) return EBUSY;
  delete gone;
  --net().live.cqs;
  return 0;
}

ibv_srq* ibv_create_srq(ibv_pd* pd, ibv_srq_init_attr* want) {
  LCI_FAKE_ENTER("ibv_create_srq", nullptr, pd->context)
  const auto most = card_of(pd->context).about->max_srq_wr;
  if (want->attr.max_wr == 0 || want->attr.max_wr > static_cast<std::uint32_t>(most)) {
    errno = EINVAL;
    return nullptr;
  }
  auto* const out = new receive_queue{};
  out->context = pd->context;
  out->pd = pd;
  out->size = want->attr.max_wr;
  ++domain_of(pd).users;
  ++net().live.srqs;
  return out;
}

int ibv_destroy_srq(ibv_srq* srq) {
  LCI_FAKE_ENTER("ibv_destroy_srq", wanted)
  auto* const q = static_cast<receive_queue*>(srq);
  if (q->users != 0) return EBUSY;
  --domain_of(srq->pd).users;
  delete q;
  --net().live.srqs;
  return 0;
}

ibv_qp* ibv_create_qp(ibv_pd* pd, ibv_qp_init_attr* want) {
  LCI_FAKE_ENTER("ibv_create_qp", nullptr, pd->context)
  const fake_device& about = *card_of(pd->context).about;
  if (want->cap.max_send_wr > static_cast<std::uint32_t>(about.max_qp_wr) ||
      want->cap.max_inline_data > about.max_inline || want->send_cq == nullptr) {
    errno = EINVAL;
    return nullptr;
  }
  auto* const q = new queue_pair{};
  q->context = pd->context;
  q->pd = pd;
  q->send_cq = want->send_cq;
  q->recv_cq = want->recv_cq;
  q->srq = want->srq;
  q->qp_type = want->qp_type;
  q->state = IBV_QPS_RESET;
  q->cap = want->cap;
  q->signals_all = want->sq_sig_all != 0;
  // Numbers of queue pairs have gaps.
  q->qp_num = net().next_number;
  net().next_number += 1 + net().draw() % 5;
  net().pairs[q->qp_num] = q;
  ++domain_of(pd).users;
  ++q->sent().users;
  ++q->received().users;
  if (q->srq != nullptr) ++static_cast<receive_queue*>(q->srq)->users;
  ++net().live.qps;
  return q;
}

int ibv_modify_qp(ibv_qp* qp, ibv_qp_attr* attr, int mask) {
  LCI_FAKE_ENTER("ibv_modify_qp", wanted, qp->context)
  auto& q = *static_cast<queue_pair*>(qp);
  if ((mask & IBV_QP_STATE) == 0) return EINVAL;
  if (attr->qp_state == IBV_QPS_ERR) {
    if (q.state != IBV_QPS_ERR) break_pair(q);
    return 0;
  }
  // What was posted is forgotten, and so are its completions.
  if (attr->qp_state == IBV_QPS_RESET) {
    q.sends.clear();
    q.receives.clear();
    q.freed = q.posted;
    net().waiting.erase(&q);
    net().flushing.erase(&q);
    for (completion_queue* cq : {&q.sent(), &q.received()})
      std::erase_if(cq->entries, [&](const completion& one) { return one.of == &q; });
    q.state = IBV_QPS_RESET;
    return 0;
  }
  const auto* const at = std::find_if(std::begin(STEPS), std::end(STEPS), [&](const step& s) {
    return s.type == q.qp_type && s.from == q.state && s.to == attr->qp_state && s.needs == mask;
  });
  if (at == std::end(STEPS) || check(q, *attr, mask) != 0) return EINVAL;
  keep(q, *attr, mask);
  q.state = attr->qp_state;
  run_waiting();
  return 0;
}

int ibv_destroy_qp(ibv_qp* qp) {
  LCI_FAKE_ENTER("ibv_destroy_qp", wanted)
  auto* const q = static_cast<queue_pair*>(qp);
  forget(*q);
  --domain_of(q->pd).users;
  --q->sent().users;
  --q->received().users;
  if (q->srq != nullptr) --static_cast<receive_queue*>(q->srq)->users;
  --net().live.qps;
  delete q;
  return 0;
}

}  // extern "C"
