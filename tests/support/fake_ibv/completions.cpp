// Completion queues, and what a card says without being asked.
#include <cerrno>
#include <cstring>

#include <unistd.h>

#include "tests/support/fake_ibv/state.hpp"

namespace lci::test::fake {
namespace {

void push(completion_queue& cq, completion&& one) {
  one.seen_from = cq.polls + net().config.delay;
  if (cq.entries.size() >= static_cast<std::size_t>(cq.cqe)) {
    raise_event(card_of(cq.context), IBV_EVENT_CQ_ERR, nullptr);
    return complain("a completion queue of " + std::to_string(cq.cqe) + " entries overflows");
  }
  cq.entries.push_back(one);
}

// Of a failed work request four fields count; the others are what was there before.
ibv_wc blank() {
  ibv_wc out;
  std::memset(&out, 0xdd, sizeof(out));
  return out;
}

ibv_wc_opcode opcode_of(ibv_wr_opcode what) {
  switch (what) {
    case IBV_WR_RDMA_WRITE:
    case IBV_WR_RDMA_WRITE_WITH_IMM:
      return IBV_WC_RDMA_WRITE;
    case IBV_WR_RDMA_READ:
      return IBV_WC_RDMA_READ;
    default:
      return IBV_WC_SEND;
  }
}

// The place of the one to hand out next; entries.size(): none may be seen yet. Those of one queue
// of one queue pair stay in order.
std::size_t next_of(const completion_queue& cq) {
  const auto& all = cq.entries;
  const auto is_seen = [&](std::size_t i) { return all[i].seen_from < cq.polls; };
  if (all.empty() || !is_seen(0)) return all.size();
  if (net().config.order_seed == 0) return 0;
  std::size_t wanted = net().draw() % (all.size() < 16 ? all.size() : 16);
  while (!is_seen(wanted)) --wanted;
  for (std::size_t i = 0; i < wanted; ++i)
    if (all[i].what.qp_num == all[wanted].what.qp_num && all[i].is_send == all[wanted].is_send)
      return i;
  return wanted;
}

}  // namespace

void complete_send(queue_pair& q, const request& r, ibv_wc_status status) {
  ibv_wc out = blank();
  out.wr_id = r.id;
  out.status = status;
  out.qp_num = q.qp_num;
  out.vendor_err = 0;
  if (status == IBV_WC_SUCCESS) {
    out.opcode = opcode_of(r.opcode);
    out.wc_flags = 0;
  }
  push(q.sent(), {out, &q, r.number, true, 0});
}

void complete_receive(queue_pair& q, const receive& r, const ibv_wc& what) {
  ibv_wc out = blank();
  out.wr_id = r.id;
  out.status = what.status;
  out.qp_num = q.qp_num;
  out.vendor_err = 0;
  if (what.status == IBV_WC_SUCCESS) {
    out.opcode = what.opcode;
    out.byte_len = what.byte_len;
    out.wc_flags = what.wc_flags;
    if ((what.wc_flags & IBV_WC_WITH_IMM) != 0) out.imm_data = what.imm_data;
  }
  push(q.received(), {out, &q, 0, false, 0});
}

void begin_poll(completion_queue& cq) {
  network& all = net();
  ++cq.polls;
  cq.handed_out = 0;
  if (!all.waiting.empty()) run_waiting();
  if (!all.flushing.empty()) {
    const auto due = all.flushing;
    for (queue_pair* q : due)
      if (q->sent().polls >= q->flush_at || all.config.flush_delay == 0) flush(*q);
  }
  if (!all.held.empty() && all.one_in(16)) deliver_held();
}

bool take_next(completion_queue& cq, ibv_wc& out) {
  const int most = net().config.most_per_poll;
  const std::size_t at = next_of(cq);
  if (at == cq.entries.size() || (most != 0 && cq.handed_out >= most)) return false;
  ++cq.handed_out;
  const completion& one = cq.entries[at];
  out = one.what;
  if (one.is_send && one.of != nullptr && one.of->freed <= one.number)
    one.of->freed = one.number + 1;
  cq.entries.erase(cq.entries.begin() + static_cast<std::ptrdiff_t>(at));
  return true;
}

int poll_cq(ibv_cq* c, int most, ibv_wc* out) {
  const std::lock_guard lock(net().lock);
  if (enter("poll_cq") != 0) return -1;
  completion_queue& cq = queue_of(c);
  if (cq.is_extended) complain("an extended completion queue is polled like an older one");
  begin_poll(cq);
  int n = 0;
  while (n < most && take_next(cq, out[n])) ++n;
  return n;
}

void raise_event(open_card& on, ibv_event_type what, queue_pair* q, int port) {
  ibv_async_event event{};
  event.event_type = what;
  if (q != nullptr) event.element.qp = q;
  if (what == IBV_EVENT_PORT_ERR || what == IBV_EVENT_PORT_ACTIVE) event.element.port_num = port;
  on.events.push_back(event);
  const std::uint64_t one = 1;
  if (write(on.context.async_fd, &one, sizeof(one)) != sizeof(one))
    complain("an event could not be told");
}

}  // namespace lci::test::fake
