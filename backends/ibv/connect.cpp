#include "backends/ibv/connect.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <exception>

#include "backends/ibv/port.hpp"
#include "backends/ibv/side.hpp"
#include "lci/base/env.hpp"
#include "lci/base/log.hpp"
#include "lci/errors.hpp"

namespace lci::ibv {
namespace {

constexpr std::uint32_t QKEY = 0x6c6369;
constexpr int FAREWELLS = 3;

std::uint8_t number_from(const char* variable, std::uint8_t usual, int least, int most) {
  const auto text = base::env::find(variable);
  return text ? static_cast<std::uint8_t>(base::env::parse_int(variable, *text, least, most))
              : usual;
}

}  // namespace

patience patience::from_environment() {
  patience out;
  out.timeout = number_from("LCI_IBV_TIMEOUT", out.timeout, 1, 31);
  out.retries = number_from("LCI_IBV_RETRY", out.retries, 0, 7);
  return out;
}

connector::connector(const chosen_port& where, ibv_pd* pd, const std::vector<rail>& rails,
                     regions& memory, net::address_book& book, mem::arena& arena)
    : where_(where),
      pd_(pd),
      rails_(rails),
      memory_(memory),
      book_(book),
      arena_(arena),
      patience_(patience::from_environment()),
      here_(describe_this_process(where)),
      block_(arena, CELL * (RECEIVES + SENDS), 4096),
      cells_(block_.get()),
      contacts_(where, pd, book) {
  open_queue();
  for (std::uint32_t i = 0; i < RECEIVES; ++i) post_receive(i);
  free_receives_.reserve(RECEIVES);
  for (std::uint32_t i = 0; i < SENDS; ++i) free_sends_.push_back(RECEIVES + i);
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
  qp_.reset(library().create_qp(pd_, &made));
  if (!qp_) throw_error("ibv_create_qp", where_.name + " (for datagrams)", errno);
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
  if (rc != 0) throw_error("ibv_modify_qp", where_.name + " (for datagrams)", rc);
}

void connector::add_port(port& p) {
  const std::lock_guard lock(mutex_);
  caller_.add_port(p);
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

void connector::look() noexcept {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock) return;
  try {
    caller_.start_pending();
    read_hellos();
    caller_.repeat([&](link& on, const port& p) { call(on, p); });
  } catch (const std::exception& problem) {
    caller_.put_off(problem);
  }
}

void connector::leave() noexcept {
  const std::lock_guard lock(mutex_);
  try {
    for (int i = 0; i < FAREWELLS; ++i) {
      caller_.for_each_called([&](link& on, const port& p) { say(on, p, hello::LEAVES); });
      read_hellos();  // cells come back by it
    }
  } catch (const std::exception& problem) {
    base::log::warn("ibv", "some peers will not hear that we leave: %s", problem.what());
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
      if (cell >= RECEIVES) {
        free_sends_.push_back(cell);
        continue;
      }
      if (done[i].status == IBV_WC_SUCCESS && done[i].byte_len >= GRH &&
          decode(cells_ + CELL * cell + GRH, done[i].byte_len - GRH, said[heard]))
        ++heard;
      free_receives_.push_back(cell);
    }
    while (!free_receives_.empty()) {
      post_receive(free_receives_.back());
      free_receives_.pop_back();
    }
    if (n < 0) throw backend_error("ibv: the completion queue for datagrams cannot be polled");
    if (n == 0) return;
    for (int i = 0; i < heard; ++i) hear(said[i]);
  }
}

void connector::hear(const hello& said) {
  if (said.to != here_.id || said.rank < 0 || said.rank >= book_.size() ||
      said.rank == book_.rank())
    return;
  port* const p = caller_.port_at(said.device);
  if (p == nullptr) return;  // not made yet; the peer will call again
  if (caller_.attempt(calls::step::answer, *p, said.rank, [&] { take(said, *p); })) return;
  link* const on = p->find(said.rank);
  if (on != nullptr && on->state() == link::stage::failed) turn_away(*on, *p);
}

// Whoever was given up need not call for ever.
void connector::turn_away(link& on, const port& p) noexcept {
  try {
    say(on, p, hello::LEAVES);
  } catch (const std::exception&) {  // nothing can be said to it
  }
}

void connector::take(const hello& said, port& p) {
  contact* const who = contacts_.find(said.rank, here_);
  // From another job, or a forged one.
  if (who == nullptr || who->address.id != said.from) return;
  link* on = p.find(said.rank);
  if ((said.flags & hello::LEAVES) != 0) {
    // Its port says so, since it knows to whom. Nothing is on the way from there: the other one was
    // not connected.
    if (on != nullptr && (on->peer_qpn == 0 || on->peer_qpn == said.qpn))
      on->move(link::stage::left);
    return;
  }
  if (on == nullptr) on = &caller_.enter(p, said.rank);
  if (on->peer_qpn == 0) accept(*on, p, said, *who);
  if (on->peer_qpn != said.qpn) return;  // late, from a connection that was given up
  contacts::set_directory(*who, said.directory, said.directory_key);
  if (said.echo == on->qp->qp_num) on->move(link::stage::ready);
  if ((said.flags & hello::WANTS_ANSWER) != 0) call(*on, p);
}

void connector::call(link& on, const port& p) {
  on.pace.wait_from(base::cpu_ticks());
  on.pace.count();
  say(on, p, on.state() == link::stage::calling ? hello::WANTS_ANSWER : 0);
}

void connector::say(link& on, const port& p, std::uint8_t flags) {
  contact* const who = contacts_.find(on.rank, here_);
  if (who == nullptr) return;
  hello out;
  out.to = who->address.id;
  out.from = here_.id;
  out.rank = book_.rank();
  out.device = static_cast<std::uint32_t>(p.index());
  out.qpn = on.qp->qp_num;
  out.psn = on.psn;
  out.echo = on.peer_qpn;
  out.directory = memory_.directory();
  out.directory_key = memory_.directory_key();
  out.reads = static_cast<std::uint8_t>(std::min(where_.limits.max_qp_rd_atom, 16));
  out.flags = flags;
  out.where = here_.where;
  for (const auto& one : p.sides()) {
    const link* const beside = one->find(on.rank);
    if (beside != nullptr) out.others[out.rails++] = {beside->qp->qp_num, place_of(one->on().card)};
    // Each serves as many.
    out.reads =
        static_cast<std::uint8_t>(std::min<int>(out.reads, one->on().card.limits.max_qp_rd_atom));
  }
  send(out, *who);
}

// False: all cells are under way; the next call says it again.
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
  if (ibv_post_send(qp_.get(), &wr, &bad) != 0) return false;
  free_sends_.pop_back();
  return true;
}

}  // namespace lci::ibv
