// What came to the library later, and not every card offers: completion queues whose entries are
// read field by field, and thread domains.
#include <cerrno>

#include "tests/support/fake_ibv/state.hpp"

namespace lci::test::fake {

completion_queue* make_queue(ibv_context* c, int cqe, void* its, ibv_comp_channel* channel) {
  if (cqe < 1 || cqe > card_of(c).about->max_cqe) {
    errno = EINVAL;
    return nullptr;
  }
  auto* const out = new completion_queue{};
  out->context = c;
  out->channel = channel;
  out->cq_context = its;
  out->cqe = cqe;
  ++net().live.cqs;
  return out;
}

namespace {

completion_queue& queue_of(ibv_cq_ex* cq) { return *static_cast<completion_queue*>(cq); }

// The next entry becomes the one whose fields are read.
int show_next(completion_queue& cq) {
  if (!take_next(cq, cq.now)) return ENOENT;
  cq.wr_id = cq.now.wr_id;
  cq.status = cq.now.status;
  return 0;
}

int start_poll(ibv_cq_ex* c, ibv_poll_cq_attr*) {
  const std::lock_guard lock(net().lock);
  if (const int wanted = enter("start_poll"); wanted != 0) return wanted;
  completion_queue& cq = queue_of(c);
  if (cq.is_polling) complain("a completion queue is polled inside of a poll");
  begin_poll(cq);
  const int answer = show_next(cq);
  cq.is_polling = answer == 0;
  return answer;
}

int next_poll(ibv_cq_ex* c) {
  const std::lock_guard lock(net().lock);
  if (!queue_of(c).is_polling) complain("a poll goes on that was not started");
  return show_next(queue_of(c));
}

void end_poll(ibv_cq_ex* c) {
  const std::lock_guard lock(net().lock);
  if (!queue_of(c).is_polling) complain("a poll ends that was not started");
  queue_of(c).is_polling = false;
}

// Of a failed work request only the number of its queue pair counts.
const ibv_wc& field(ibv_cq_ex* c, std::uint64_t which) {
  const completion_queue& cq = queue_of(c);
  const std::lock_guard lock(net().lock);
  if (!cq.is_polling || (which & ~cq.fields) != 0 ||
      (cq.status != IBV_WC_SUCCESS && which != IBV_WC_EX_WITH_QP_NUM))
    complain("a field of a completion is read that is not there");
  return cq.now;
}
ibv_wc_opcode read_opcode(ibv_cq_ex* c) { return field(c, 0).opcode; }
std::uint32_t read_byte_len(ibv_cq_ex* c) { return field(c, IBV_WC_EX_WITH_BYTE_LEN).byte_len; }
__be32 read_imm_data(ibv_cq_ex* c) { return field(c, IBV_WC_EX_WITH_IMM).imm_data; }
std::uint32_t read_qp_num(ibv_cq_ex* c) { return field(c, IBV_WC_EX_WITH_QP_NUM).qp_num; }
unsigned read_wc_flags(ibv_cq_ex* c) { return field(c, 0).wc_flags; }

ibv_cq_ex* create_cq_ex(ibv_context* c, ibv_cq_init_attr_ex* want) {
  const std::lock_guard lock(net().lock);
  if (const int wanted = enter("ibv_create_cq_ex"); wanted != 0) {
    errno = wanted;
    return nullptr;
  }
  completion_queue* const out =
      make_queue(c, static_cast<int>(want->cqe), want->cq_context, want->channel);
  if (out == nullptr) return nullptr;
  out->is_extended = true;
  out->fields = want->wc_flags;
  out->start_poll = start_poll;
  out->next_poll = next_poll;
  out->end_poll = end_poll;
  out->read_opcode = read_opcode;
  out->read_byte_len = read_byte_len;
  out->read_imm_data = read_imm_data;
  out->read_qp_num = read_qp_num;
  out->read_wc_flags = read_wc_flags;
  return out;
}

ibv_td* alloc_td(ibv_context* c, ibv_td_init_attr*) {
  const std::lock_guard lock(net().lock);
  if (const int wanted = enter("ibv_alloc_td"); wanted != 0) {
    errno = wanted;
    return nullptr;
  }
  auto* const out = new thread_domain{};
  out->context = c;
  ++net().live.tds;
  return out;
}

int dealloc_td(ibv_td* td) {
  const std::lock_guard lock(net().lock);
  auto* const gone = static_cast<thread_domain*>(td);
  if (gone->users != 0) return EBUSY;
  delete gone;
  --net().live.tds;
  return 0;
}

ibv_pd* alloc_parent_domain(ibv_context* c, ibv_parent_domain_init_attr* want) {
  const std::lock_guard lock(net().lock);
  if (const int wanted = enter("ibv_alloc_parent_domain"); wanted != 0) {
    errno = wanted;
    return nullptr;
  }
  auto* const out = new domain{};
  out->context = c;
  out->parent = &domain_of(want->pd);
  out->threads = static_cast<thread_domain*>(want->td);
  ++out->parent->users;
  if (out->threads != nullptr) ++out->threads->users;
  ++net().live.pds;
  return out;
}

}  // namespace

}  // namespace lci::test::fake

extern "C" ibv_qp_ex* ibv_qp_to_qp_ex(ibv_qp* qp) {
  using namespace lci::test::fake;
  const std::lock_guard lock(net().lock);
  const auto at = net().extended_pairs.find(qp);
  return at == net().extended_pairs.end() ? nullptr : at->second;
}

namespace lci::test::fake {

void offer_newer_calls(open_card& c) {
  c.context.abi_compat = __VERBS_ABI_IS_EXTENDED;
  c.sz = sizeof(verbs_context);
  if (c.about->has_extended_queues) c.create_cq_ex = create_cq_ex;
  if (!c.about->has_thread_domains) return;
  c.alloc_td = alloc_td;
  c.dealloc_td = dealloc_td;
  c.alloc_parent_domain = alloc_parent_domain;
}

}  // namespace lci::test::fake
