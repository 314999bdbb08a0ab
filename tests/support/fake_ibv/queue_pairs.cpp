// Work requests of queue pairs: posted, carried out, waiting, flushed.
#include <algorithm>
#include <cerrno>
#include <chrono>

#include "tests/support/fake_ibv/state.hpp"

namespace lci::test::fake {
namespace {

std::uint64_t nanoseconds() {
  return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
}

// The other end, if it would answer.
queue_pair* peer_of(const queue_pair& q) {
  const auto at = net().pairs.find(q.attr.dest_qp_num);
  if (at == net().pairs.end() || q.owner()->is_dead) return nullptr;
  queue_pair& p = *at->second;
  const bool is_ready = p.state == IBV_QPS_RTR || p.state == IBV_QPS_RTS;
  if (!is_ready || p.qp_type != q.qp_type || p.owner()->is_dead || p.attr.dest_qp_num != q.qp_num)
    return nullptr;
  // Without a way back nothing is acknowledged.
  if (!reaches(q, p) || !reaches(p, q)) return nullptr;
  // What starts at another number looks like a repetition, and is dropped.
  return p.attr.rq_psn == q.attr.sq_psn ? &p : nullptr;
}

// Whether the card has tried long enough.
bool gives_up(const queue_pair& q, request& r) {
  if (net().config.never_gives_up) return false;
  const auto at = net().pairs.find(q.attr.dest_qp_num);
  const bool may_come = at != net().pairs.end() && !at->second->owner()->is_dead &&
                        at->second->state < IBV_QPS_RTR && !q.owner()->is_dead;
  if (!may_come && !net().config.waits_for_dead) return true;
  if (r.since == 0) r.since = nanoseconds();
  return nanoseconds() - r.since >
         (std::uint64_t{4096} << q.attr.timeout) * (q.attr.retry_cnt + 1u);
}

bool needs_receive(ibv_wr_opcode what) {
  return what == IBV_WR_SEND || what == IBV_WR_SEND_WITH_IMM || what == IBV_WR_RDMA_WRITE_WITH_IMM;
}

// A message that arrives. The status is the sender's.
ibv_wc_status arrive(queue_pair& peer, const request& r, const std::vector<std::byte>& bytes) {
  auto& from = peer.receive_from();
  const receive into = from.front();
  from.pop_front();
  const bool is_write = r.opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
  ibv_wc wc{};
  wc.status = IBV_WC_SUCCESS;
  wc.opcode = is_write ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV;
  wc.byte_len = static_cast<std::uint32_t>(bytes.size());
  wc.wc_flags = r.opcode == IBV_WR_SEND ? 0 : IBV_WC_WITH_IMM;
  wc.imm_data = r.imm;
  if (!is_write && bytes.size() > size_of(into.parts)) {
    wc.status = IBV_WC_LOC_LEN_ERR;
  } else if (!is_write && !scatter(peer, into.parts, bytes.data(), bytes.size())) {
    complain("a receive lies in memory that is not registered to be written");
    wc.status = IBV_WC_LOC_PROT_ERR;
  }
  complete_receive(peer, into, wc);
  if (wc.status == IBV_WC_SUCCESS) return IBV_WC_SUCCESS;
  break_pair(peer);
  return wc.status == IBV_WC_LOC_LEN_ERR ? IBV_WC_REM_INV_REQ_ERR : IBV_WC_REM_OP_ERR;
}

ibv_wc_status refuse_access(queue_pair& peer) {
  raise_event(*peer.owner(), IBV_EVENT_QP_ACCESS_ERR, &peer);
  break_pair(peer);
  return IBV_WC_REM_ACCESS_ERR;
}

ibv_wc_status read(const queue_pair& q, queue_pair& peer, const request& r) {
  const std::size_t size = size_of(r.parts);
  if (size == 0) return IBV_WC_SUCCESS;
  const region* const from = remote_region(peer, r.rkey, r.remote, size, IBV_ACCESS_REMOTE_READ);
  if (from == nullptr) return refuse_access(peer);
  std::vector<std::byte> bytes(size);
  move_bytes(bytes.data(), static_cast<std::byte*>(from->addr) + (r.remote - from->iova), size);
  return scatter(q, r.parts, bytes.data(), size) ? IBV_WC_SUCCESS : IBV_WC_LOC_PROT_ERR;
}

ibv_wc_status carry_out(const queue_pair& q, queue_pair& peer, const request& r) {
  if (std::max(size_of(r.parts), r.inlined.size()) > q.owner()->about->max_msg_sz)
    return IBV_WC_LOC_LEN_ERR;
  if (r.opcode == IBV_WR_RDMA_READ) return read(q, peer, r);
  std::vector<std::byte> bytes;
  if (!gather(q, r, bytes)) return IBV_WC_LOC_PROT_ERR;
  const bool is_write = r.opcode == IBV_WR_RDMA_WRITE || r.opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
  // A card would not look at it; ours are told all the same.
  if (const auto named = net().by_rkey.find(r.rkey);
      is_write && bytes.empty() && named != net().by_rkey.end() && named->second->pd != peer.home())
    complain("a write of no bytes has the key of another card");
  if (is_write && !bytes.empty()) {
    const region* const to =
        remote_region(peer, r.rkey, r.remote, bytes.size(), IBV_ACCESS_REMOTE_WRITE);
    if (to == nullptr) return refuse_access(peer);
    move_bytes(static_cast<std::byte*>(to->addr) + (r.remote - to->iova), bytes.data(),
               bytes.size());
  }
  return needs_receive(r.opcode) ? arrive(peer, r, bytes) : IBV_WC_SUCCESS;
}

// What an ibv_post_send would answer, before anything is taken.
int check(const queue_pair& q, const ibv_send_wr& wr) {
  if (q.state < IBV_QPS_RTS) return EINVAL;
  if (q.posted - q.freed >= q.cap.max_send_wr) return ENOMEM;
  if (wr.num_sge < 0 || static_cast<std::uint32_t>(wr.num_sge) > q.cap.max_send_sge) return EINVAL;
  if ((wr.send_flags & IBV_SEND_INLINE) == 0) return 0;
  std::size_t size = 0;
  for (int i = 0; i < wr.num_sge; ++i) size += wr.sg_list[i].length;
  return size > q.cap.max_inline_data || wr.opcode == IBV_WR_RDMA_READ ? EINVAL : 0;
}

request take(queue_pair& q, const ibv_send_wr& wr) {
  request r{q.posted++, wr.wr_id, wr.opcode, wr.send_flags, 0, 0, 0, {}, {}, 0};
  if (wr.opcode == IBV_WR_SEND_WITH_IMM || wr.opcode == IBV_WR_RDMA_WRITE_WITH_IMM)
    r.imm = wr.imm_data;
  if (wr.opcode != IBV_WR_SEND && wr.opcode != IBV_WR_SEND_WITH_IMM) {
    r.remote = wr.wr.rdma.remote_addr;
    r.rkey = wr.wr.rdma.rkey;
  }
  if ((wr.send_flags & IBV_SEND_INLINE) == 0) {
    r.parts.assign(wr.sg_list, wr.sg_list + wr.num_sge);
    return r;
  }
  for (int i = 0; i < wr.num_sge; ++i) {
    const auto* const from = reinterpret_cast<const std::byte*>(wr.sg_list[i].addr);
    r.inlined.insert(r.inlined.end(), from, from + wr.sg_list[i].length);
  }
  return r;
}

template <class Queue>
int post_receives(std::deque<receive>& to, std::size_t size, ibv_recv_wr* wr, ibv_recv_wr** bad,
                  const char* name, Queue&& posted) {
  enter("doorbell");
  for (; wr != nullptr; wr = wr->next) {
    int error = enter(name);
    if (error == 0 && to.size() >= size) error = ENOMEM;
    if (error != 0) {
      *bad = wr;
      break;
    }
    to.push_back({wr->wr_id, {wr->sg_list, wr->sg_list + wr->num_sge}});
  }
  posted();
  return wr == nullptr ? 0 : ENOMEM;
}

// Who made a thread domain has promised that posts on its queue pairs do not run at the same time.
class alone_in_domain {
 public:
  explicit alone_in_domain(thread_domain* where) : where_(where) {
    if (where_ == nullptr || !where_->is_posting.exchange(true)) return;
    const std::lock_guard lock(net().lock);
    complain("two posts at the same time in one thread domain");
  }
  ~alone_in_domain() {
    if (where_ != nullptr) where_->is_posting.store(false);
  }
  alone_in_domain(const alone_in_domain&) = delete;
  alone_in_domain& operator=(const alone_in_domain&) = delete;

 private:
  thread_domain* where_;
};

}  // namespace

// Everything of that queue pair that can be carried out now.
void run(queue_pair& q) {
  if (q.owner()->is_removed) return;
  net().waiting.erase(&q);
  while (!q.sends.empty() && q.state == IBV_QPS_RTS) {
    request& r = q.sends.front();
    queue_pair* const peer = peer_of(q);
    ibv_wc_status status = IBV_WC_RETRY_EXC_ERR;
    if (peer != nullptr) {
      if (needs_receive(r.opcode) && peer->receive_from().empty()) break;
      r.since = 0;
      status = carry_out(q, *peer, r);
    } else if (!gives_up(q, r)) {
      break;
    }
    if (status != IBV_WC_SUCCESS || q.signals_all || (r.flags & IBV_SEND_SIGNALED) != 0)
      complete_send(q, r, status);
    q.sends.pop_front();
    if (status != IBV_WC_SUCCESS) return break_pair(q);
  }
  if (!q.sends.empty() && q.state == IBV_QPS_RTS) net().waiting.insert(&q);
}

void run_waiting() {
  const auto all = net().waiting;
  for (queue_pair* q : all) run(*q);
}

void break_pair(queue_pair& q) {
  q.state = IBV_QPS_ERR;
  net().waiting.erase(&q);
  q.flush_at = q.sent().polls + net().config.flush_delay;
  if (net().config.flush_delay == 0)
    flush(q);
  else
    net().flushing.insert(&q);
}

void flush(queue_pair& q) {
  if (q.owner()->is_removed) return;
  net().flushing.erase(&q);
  for (const request& r : q.sends) complete_send(q, r, IBV_WC_WR_FLUSH_ERR);
  q.sends.clear();
  ibv_wc wc{};
  wc.status = IBV_WC_WR_FLUSH_ERR;
  for (const receive& r : q.receives) complete_receive(q, r, wc);
  q.receives.clear();
}

int post_send(ibv_qp* qp, ibv_send_wr* wr, ibv_send_wr** bad) {
  auto& q = *static_cast<queue_pair*>(qp);
  const alone_in_domain alone(domain_of(q.pd).threads);
  const std::lock_guard lock(net().lock);
  enter("doorbell");
  for (; wr != nullptr; wr = wr->next) {
    int error = enter("post_send");
    if (error == 0) error = check(q, *wr);
    if (error != 0) {
      *bad = wr;
      return error;
    }
    request r = take(q, *wr);
    if (wr->opcode != IBV_WR_SEND && wr->opcode != IBV_WR_SEND_WITH_IMM)
      enter(("rdma on " + q.owner()->about->name).c_str());
    if (q.qp_type == IBV_QPT_UD) {
      if (q.state == IBV_QPS_RTS)
        send_datagram(q, r, *wr);
      else
        complete_send(q, r, IBV_WC_WR_FLUSH_ERR);
      continue;
    }
    q.sends.push_back(std::move(r));
    if (q.state == IBV_QPS_ERR && !net().flushing.contains(&q)) flush(q);
  }
  if (q.sends.size() == 1 || !net().waiting.contains(&q)) run(q);
  return 0;
}

int post_recv(ibv_qp* qp, ibv_recv_wr* wr, ibv_recv_wr** bad) {
  const std::lock_guard lock(net().lock);
  auto& q = *static_cast<queue_pair*>(qp);
  return post_receives(q.receives, q.cap.max_recv_wr, wr, bad, "post_recv", [&] {
    if (q.state == IBV_QPS_ERR && !net().flushing.contains(&q)) flush(q);
  });
}

int post_srq_recv(ibv_srq* srq, ibv_recv_wr* wr, ibv_recv_wr** bad) {
  const std::lock_guard lock(net().lock);
  auto& s = *static_cast<receive_queue*>(srq);
  return post_receives(s.posted, s.size, wr, bad, "post_srq_recv", [] { run_waiting(); });
}

}  // namespace lci::test::fake
