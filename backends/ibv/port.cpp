#include "backends/ibv/port.hpp"

#include <sys/random.h>

#include <algorithm>
#include <cerrno>

#include "backends/ibv/fabric.hpp"
#include "backends/ibv/work.hpp"
#include "lci/base/log.hpp"
#include "lci/errors.hpp"
#include "lci/net/connected/null_sink.hpp"

namespace lci::ibv {
namespace {

// Packets for receives and for copies; they are made as they are needed.
constexpr std::size_t LEAST_PACKETS = 512;
// Links whose completions fit before the queue has to grow.
constexpr std::uint32_t FIRST_LINKS = 16;
// A peer that is alive acknowledges a farewell at once.
constexpr std::uint64_t LEAVE_MS = 5000;

// As much of it as the card can do.
net::device_config possible(const fabric& owner, const net::device_config& wanted) {
  net::device_config out = wanted;
  const auto most = static_cast<std::size_t>(std::min(owner.card().limits.max_qp_wr, 1 << 14));
  out.max_sends = std::clamp<std::size_t>(wanted.max_sends, 4 * link::RESERVE, most);
  out.ibv_td_strategy = choose_strategy(wanted.ibv_td_strategy, owner.pd(), owner.card().name);
  return out;
}

// Completions of all receives and a few links; no more than asked for, but those of one link.
std::uint32_t first_entries(const net::device_config& wanted, std::uint32_t receives,
                            const chosen_port& card) {
  const std::size_t usual = receives + wanted.max_sends * FIRST_LINKS;
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

port::port(fabric& owner, int index, const net::device_config& wanted)
    : fabric_(owner),
      index_(index),
      config_(possible(owner, wanted)),
      depth_(static_cast<std::uint32_t>(config_.max_sends)),
      reserved_(static_cast<std::uint32_t>(config_.send_reserve * depth_)),
      packets_(*owner.config().arena, sizeof(mem::packet) + owner.caps().max_send,
               std::max<std::size_t>(config_.max_recvs, LEAST_PACKETS)),
      receives_(owner, packets_, config_.max_recvs),
      cq_(owner.card(), first_entries(config_, receives_.size(), owner.card())),
      self_(owner.rank(), packets_, *owner.config().regions),
      ranks_(static_cast<std::size_t>(owner.size())),
      links_(ranks_),
      by_qpn_(ranks_),
      pending_(ranks_),
      unreachable_(ranks_) {
  if (config_.ibv_td_strategy == attr_ibv_td_strategy_t::all_qp)
    domain_ = make_thread_domain(owner.pd());
  for (const rail& one : owner.rails())
    sides_.push_back(std::make_unique<side>(one, depth_, ranks_));
}

port::~port() {
  for (const auto& one : link_store_) {
    send_record left_over;
    std::uint64_t number = 0;
    while (one->take_done(one->last_posted(), left_over, number)) {
      if (left_over.packet != nullptr)
        mem::release_packet(*fabric_.config().arena, left_over.packet);
      fabric_.memory().remove(left_over.key);
    }
  }
  splits_.for_each_left([&](split& one) { fabric_.memory().remove(one.key); });
  // Queue pairs before the queues they use.
  link_store_.clear();
}

LCI_COLD errorcode_t port::no_link(int rank) noexcept {
  if (static_cast<std::size_t>(rank) >= ranks_) return errorcode_t::fatal;
  if (unreachable_.is_told(rank)) return errorcode_t::fatal;
  request(rank);
  return errorcode_t::retry_nomem;
}

void port::request(int rank) noexcept {
  if (const char* const why = fabric_.failure()) return give_up(rank, why);
  if (unreachable_.has(rank)) return;
  if (pending_.add(rank)) fabric_.calls().request();
}

// Where the next queue pair lives, if that is nobody else's.
thread_domain port::next_home() {
  if (config_.ibv_td_strategy != attr_ibv_td_strategy_t::per_qp) return {};
  thread_domain out = make_thread_domain(fabric_.pd());
  if (!out.pd) log::debug("ibv", "%s has no more thread domains", fabric_.card().name.c_str());
  return out;
}

link& port::make_link(int rank) {
  // First: once there is a link to a rank, nobody asks again.
  for (const auto& one : sides_) one->make_link(rank);
  cq_.make_room(link_store_.size() + 1, depth_, receives_.size());
  thread_domain home = next_home();
  const bool is_shared = domain_.pd != nullptr;
  ibv_pd* const pd = is_shared ? domain_.pd.get() : home.pd ? home.pd.get() : fabric_.pd();
  ibv_qp_init_attr made{};
  made.send_cq = made.recv_cq = cq_.queue();
  made.srq = receives_.queue();
  made.cap.max_send_wr = depth_;
  made.cap.max_send_sge = 2;
  made.cap.max_inline_data = static_cast<std::uint32_t>(fabric_.caps().max_inject);
  qp_handle qp = make_queue_pair(fabric_.card(), pd, made, rank);
  link_store_.push_back(std::make_unique<link>(rank, std::move(qp), random_psn(), depth_, reserved_,
                                               is_shared ? &domain_lock_ : nullptr,
                                               std::move(home)));
  link& out = *link_store_.back();
  by_qpn_.enter(out);
  // edge ibv.link: partner is find().
  links_[static_cast<std::size_t>(rank)].store(&out, std::memory_order_release);
  return out;
}

bool port::is_drained() const noexcept {
  return pending_errors_.are_failures_told() && self_.is_empty() &&
         std::all_of(links_.begin(), links_.end(), [](const std::atomic<link*>& one) {
           const link* const on = one.load(std::memory_order_acquire);  // edge ibv.link
           return on == nullptr || on->is_drained();
         });
}

bool port::fail_later(int rank, void* context, const char* reason) noexcept {
  return pending_errors_.add_failure(rank, context, reason);
}

bool port::try_tell(int rank, const note& what) noexcept {
  link* const on = find(rank);
  if (on == nullptr || on->state() > link::stage::ready) return true;
  work one(IBV_WR_SEND, IBV_SEND_INLINE);
  one.add(&what, sizeof(what));
  return on->post(one.wr, claim::ours) == errorcode_t::done;
}

void port::tell(int rank, const note& what) noexcept {
  if (try_tell(rank, what)) return;
  pending_errors_.add_note(rank, what);
}

void port::leave() noexcept {
  net::connected::null_sink listener;
  const std::uint64_t deadline = base::cpu_ticks() + LEAVE_MS * base::ticks_per_ms();
  const auto in_time = [&] { return base::cpu_ticks() < deadline; };
  const auto all = [&](auto&& is_so) {
    return std::all_of(links_.begin(), links_.end(), [&](const std::atomic<link*>& one) {
      const link* const on = one.load(std::memory_order_acquire);  // edge ibv.link
      return on == nullptr || is_so(*on);
    });
  };
  for (const std::atomic<link*>& one : links_) {
    link* const on = one.load(std::memory_order_acquire);  // edge ibv.link
    if (on == nullptr) continue;
    work farewell(IBV_WR_SEND);
    // The news of what goes in pieces come before it.
    while (on->state() == link::stage::ready && in_time() &&
           (on->has_splits() ||
            on->post(farewell.wr, {.what = purpose::farewell}) != errorcode_t::done))
      poll(listener, BATCH);
  }
  // All that was posted goes out before the queue pairs go.
  const auto is_said = [](const link& on) {
    return on.is_idle() || on.state() != link::stage::ready;
  };
  while (!all(is_said) && in_time()) poll(listener, BATCH);
}

}  // namespace lci::ibv
