#include "backends/ibv/device_queues.hpp"

#include <sys/random.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "backends/ibv/queue_pair.hpp"
#include "backends/ibv/work.hpp"
#include "lci/base/log.hpp"
#include "lci/errors.hpp"

namespace lci::ibv {
namespace {

// Connections whose completions fit before the queue has to grow.
constexpr std::uint32_t FIRST_CONNECTIONS = 16;

// As much of it as the card can do.
net::device_config possible(const cards& on, const net::device_config& wanted) {
  net::device_config out = wanted;
  const auto most = static_cast<std::size_t>(std::min(on.first().limits.max_qp_wr, 1 << 14));
  out.max_sends = std::clamp<std::size_t>(wanted.max_sends, 4 * connection::RESERVE, most);
  out.ibv_td_strategy = choose_strategy(wanted.ibv_td_strategy, on.pd(), on.first().name);
  return out;
}

// Completions of all receives and a few connections; no more than asked for, but those of one
// connection.
std::uint32_t first_entries(const net::device_config& wanted, std::uint32_t receives,
                            const chosen_port& card) {
  const std::size_t usual = receives + wanted.max_sends * FIRST_CONNECTIONS;
  const std::size_t least = receives + wanted.max_sends;
  return static_cast<std::uint32_t>(std::min(
      {usual, std::max(wanted.max_cqes, least), static_cast<std::size_t>(card.limits.max_cqe)}));
}

std::uint32_t random_psn() {
  std::uint32_t out = 0;
  if (getrandom(&out, sizeof(out), 0) != sizeof(out)) out = 1;
  return out & 0xffffff;
}

}  // namespace

device_queues::device_queues(cards& on, regions& memory, net::connected::connect_requests& requests,
                             int index, const net::device_config& wanted)
    : net::connected::device_queues<connection, note>(
          on.config(), on.caps().max_send, index, possible(on, wanted), requests, &on.failure()),
      cards_(on),
      memory_(memory),
      receives_(on, memory, packets_, config_.max_recvs),
      cq_(on.first(), first_entries(config_, receives_.size(), on.first())),
      by_qpn_(ranks()),
      depth_(static_cast<std::uint32_t>(config_.max_sends)),
      reserved_(static_cast<std::uint32_t>(config_.send_reserve * depth_)) {
  if (config_.ibv_td_strategy == attr_ibv_td_strategy_t::all_qp)
    domain_ = make_thread_domain(on.pd());
}

device_queues::~device_queues() {
  for_each([&](connection& one) {
    send_record left_over;
    std::uint64_t number = 0;
    while (one.take_done(one.last_posted(), left_over, number)) {
      if (left_over.packet != nullptr) mem::release_packet(arena_, left_over.packet);
      memory_.remove(left_over.key);
    }
  });
  rails_.reset();
  // Queue pairs before the queues they use.
  clear();
}

// Where the next queue pair lives, if it shares that with no other.
thread_domain device_queues::next_home() {
  if (config_.ibv_td_strategy != attr_ibv_td_strategy_t::per_qp) return {};
  thread_domain out = make_thread_domain(cards_.pd());
  if (!out.pd) log::debug("ibv", "%s has no more thread domains", cards_.first().name.c_str());
  return out;
}

connection& device_queues::make_connection(int rank) {
  // First: once there is a connection to a rank, it is not asked for again.
  if (rails_ != nullptr) rails_->make_connection(rank);
  cq_.make_room(made_ + 1, depth_, receives_.size());
  thread_domain home = next_home();
  const bool is_shared = domain_.pd != nullptr;
  ibv_pd* const pd = is_shared ? domain_.pd.get() : home.pd ? home.pd.get() : cards_.pd();
  ibv_qp_init_attr made{};
  made.send_cq = made.recv_cq = cq_.queue();
  made.srq = receives_.queue();
  made.cap.max_send_wr = depth_;
  made.cap.max_send_sge = 2;
  made.cap.max_inline_data = static_cast<std::uint32_t>(cards_.caps().max_inject);
  qp_handle qp = make_queue_pair(cards_.first(), pd, made, rank);
  connection& out =
      keep(std::make_unique<connection>(rank, std::move(qp), random_psn(), depth_, reserved_,
                                        is_shared ? &domain_lock_ : nullptr, std::move(home)));
  // Only what is kept, since it stays there.
  by_qpn_.enter(out);
  ++made_;
  publish(out);
  return out;
}

LCI_COLD void device_queues::forget_users() noexcept {
  forget_failures();
  for_each([](connection& on) { on.forget_users(); });
  if (rails_ != nullptr) rails_->forget_users();
}

void device_queues::tell(int rank, const note& what) noexcept {
  due_notices_.tell(rank, what, [this](int to, const note& one) { return send_note(to, one); });
}

// True: it is not needed any more, or it is out.
bool device_queues::send_note(int rank, const note& what) noexcept {
  connection* const on = find(rank);
  if (on == nullptr || on->state() > connection::stage::ready) return true;
  work one(IBV_WR_SEND, IBV_SEND_INLINE);
  one.add(&what, sizeof(what));
  return on->post(one.wr, claim::ours) == errorcode_t::done;
}

}  // namespace lci::ibv
