#include "backends/ibv/connector.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "backends/ibv/queue_pair.hpp"
#include "lci/errors.hpp"

namespace lci::ibv {
namespace {

constexpr std::uint32_t QKEY = 0x6c6369;
constexpr int DISCONNECTS = 3;  // a datagram may be lost
// For all of them together: a card sends a datagram in microseconds.
constexpr std::uint64_t LEAVE_MS = 100;

}  // namespace

connector::connector(cards& on, regions& memory)
    : net::connected::connector<connector, device_queues, hello, contact>(*on.config().book),
      cards_(on),
      where_(on.first()),
      memory_(memory),
      arena_(*on.config().arena),
      here_(describe_this_process(where_)),
      block_(arena_, CELL * (RECEIVES + SENDS), 4096),
      cells_(block_.get()),
      contacts_(where_, on.pd(), book_) {
  open_queue();
  free_all_cells();
  post_receives();
  here_.qpn = qp_->qp_num;
}

void connector::open_queue() {
  cq_.reset(library().create_cq(where_.context.get(), RECEIVES + SENDS, nullptr, nullptr, 0));
  if (!cq_) throw_error("ibv_create_cq", where_.name, errno);
  ibv_qp_init_attr made{};
  made.send_cq = made.recv_cq = cq_.get();
  made.qp_type = IBV_QPT_UD;
  made.sq_sig_all = 1;
  made.cap = {SENDS, RECEIVES, 1, 1, 0};
  qp_.reset(library().create_qp(cards_.pd(), &made));
  if (!qp_) throw_error("ibv_create_qp", where_.name + " (for datagrams)", errno);
  if (const int rc = start_queue(); rc != 0)
    throw_error("ibv_modify_qp", where_.name + " (for datagrams)", rc);
}

// From its first state to where it sends; 0 or an error.
int connector::start_queue() noexcept {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = where_.number;
  attr.qkey = QKEY;
  int rc = library().modify_qp(qp_.get(), &attr,
                               IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY);
  attr.qp_state = IBV_QPS_RTR;
  if (rc == 0) rc = library().modify_qp(qp_.get(), &attr, IBV_QP_STATE);
  attr.qp_state = IBV_QPS_RTS;
  if (rc == 0) rc = library().modify_qp(qp_.get(), &attr, IBV_QP_STATE | IBV_QP_SQ_PSN);
  return rc;
}

// A queue pair in error sends nothing and receives nothing, for good. What was under way is lost,
// as datagrams may be: hellos are repeated. Its number, which peers know, stays.
LCI_COLD void connector::restart_queue() {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RESET;
  int rc = library().modify_qp(qp_.get(), &attr, IBV_QP_STATE);
  ibv_wc old[16];
  while (rc == 0 && ibv_poll_cq(cq_.get(), 16, old) > 0) {
  }
  if (rc == 0) rc = start_queue();
  if (rc != 0) {
    if (rc != ENOMEM && rc != EAGAIN) cards_.fail("hellos cannot be sent any more");
    throw_error("ibv_modify_qp", where_.name + " (for datagrams)", rc);
  }
  free_all_cells();
  is_broken_ = false;
}

void connector::free_all_cells() {
  free_receives_.clear();
  free_sends_.clear();
  for (std::uint32_t i = 0; i < RECEIVES; ++i) free_receives_.push_back(i);
  for (std::uint32_t i = 0; i < SENDS; ++i) free_sends_.push_back(RECEIVES + i);
}

void connector::post_receives() {
  while (!free_receives_.empty()) {
    post_receive(free_receives_.back());
    free_receives_.pop_back();
  }
}

void connector::post_receive(std::uint32_t cell) {
  std::byte* const at = cells_ + CELL * cell;
  const ibv_mr* const mr = memory_.of_arena(arena_.offset_of(at), CELL);
  if (mr == nullptr) throw backend_error("ibv: memory for datagrams cannot be registered");
  ibv_sge sge{reinterpret_cast<std::uint64_t>(at), CELL, mr->lkey};
  ibv_recv_wr wr{};
  wr.wr_id = cell;
  wr.sg_list = &sge;
  wr.num_sge = 1;
  ibv_recv_wr* bad = nullptr;
  if (const int rc = ibv_post_recv(qp_.get(), &wr, &bad); rc != 0)
    throw_error("ibv_post_recv", where_.name, rc);
}

void connector::disconnect_called() {
  const std::uint64_t deadline = base::cpu_ticks() + LEAVE_MS * base::ticks_per_ms();
  for (int i = 0; i < DISCONNECTS; ++i) {
    caller_.for_each_called([&](connection& on, device_queues& q) {
      // Cells come back by what is read.
      while (!say(on, q, net::connected::hello_flags::LEAVES) && base::cpu_ticks() < deadline)
        read_hellos();
    });
    read_hellos();
  }
}

void connector::read_hellos() {
  ibv_wc done[16];
  hello said[16];
  for (int rounds = 0; rounds < 16; ++rounds) {
    const int n = ibv_poll_cq(cq_.get(), 16, done);
    int heard = 0;
    // All cells first: none is lost, whatever goes wrong behind.
    for (int i = 0; i < n; ++i) {
      const auto cell = static_cast<std::uint32_t>(done[i].wr_id);
      // A receive may fail by itself, as for what is too long.
      is_broken_ |= done[i].status == IBV_WC_WR_FLUSH_ERR ||
                    (done[i].status != IBV_WC_SUCCESS && cell >= RECEIVES);
      if (cell >= RECEIVES) {
        free_sends_.push_back(cell);
        continue;
      }
      if (done[i].status == IBV_WC_SUCCESS && done[i].byte_len >= GRH &&
          decode(cells_ + CELL * cell + GRH, done[i].byte_len - GRH, said[heard]))
        ++heard;
      free_receives_.push_back(cell);
    }
    if (is_broken_) restart_queue();
    post_receives();
    if (n < 0) throw backend_error("ibv: the completion queue for datagrams cannot be polled");
    if (n == 0) return;
    for (int i = 0; i < heard; ++i) hear(said[i]);
  }
}

// Null as well: from another job, or a forged one.
contact* connector::sender_of(const hello& said) {
  contact* const who = contacts_.find(said.rank, here_);
  return who != nullptr && who->address.id == said.from ? who : nullptr;
}

bool connector::take_up(connection& on, device_queues& q, const hello& said, contact& who) {
  if (on.peer_qpn == 0) {
    // First, so that all are connected once the one that messages take is.
    if (q.rails() != nullptr) q.rails()->accept(on, said);
    connect_queue_pair(on, {where_, who.address.where, said.qpn}, said, on.psn, cards_.tries());
  }
  if (on.peer_qpn != said.qpn) return false;
  contacts::set_directory(who, said.directory, said.directory_key);
  return true;
}

// But for what a connection adds.
hello connector::hello_to(const contact& who, const device_queues& q,
                          std::uint8_t flags) const noexcept {
  hello out;
  out.to = who.address.id;
  out.from = here_.id;
  out.rank = book_.rank();
  out.device = static_cast<std::uint32_t>(q.index());
  out.directory = memory_.directory();
  out.directory_key = memory_.directory_key();
  out.reads = static_cast<std::uint8_t>(std::min(where_.limits.max_qp_rd_atom, 16));
  out.flags = flags;
  out.where = here_.where;
  return out;
}

void connector::refuse(int rank, const device_queues& q) {
  contact* const who = contacts_.find(rank, here_);
  if (who == nullptr) return;
  hello out = hello_to(*who, q, net::connected::hello_flags::LEAVES);
  out.qpn = here_.qpn;  // of the datagrams: a hello without a number does not parse
  send(out, *who);
}

bool connector::say(connection& on, device_queues& q, std::uint8_t flags) {
  contact* const who = contacts_.find(on.rank, here_);
  if (who == nullptr) return true;
  hello out = hello_to(*who, q, flags);
  out.qpn = on.qp->qp_num;
  out.psn = on.psn;
  out.echo = on.peer_qpn;
  if (q.rails() != nullptr) q.rails()->describe(on.rank, out);
  return send(out, *who);
}

// False while all cells are under way. What the card refuses is lost, as datagrams may be.
bool connector::send(const hello& what, contact& to) {
  if (free_sends_.empty()) return false;
  const std::uint32_t cell = free_sends_.back();
  std::byte* const at = cells_ + CELL * cell;
  std::memcpy(at, &what, sizeof(what));
  const ibv_mr* const mr = memory_.of_arena(arena_.offset_of(at), CELL);
  ibv_sge sge{reinterpret_cast<std::uint64_t>(at), sizeof(what), mr->lkey};
  ibv_send_wr wr{};
  wr.wr_id = cell;
  wr.sg_list = &sge;
  wr.num_sge = 1;
  wr.opcode = IBV_WR_SEND;
  wr.wr.ud = {to.handle.get(), to.address.qpn, QKEY};
  ibv_send_wr* bad = nullptr;
  if (ibv_post_send(qp_.get(), &wr, &bad) == 0) free_sends_.pop_back();
  return true;
}

}  // namespace lci::ibv
