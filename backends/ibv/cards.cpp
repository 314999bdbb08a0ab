#include "backends/ibv/cards.hpp"

#include <fcntl.h>

#include <algorithm>
#include <bit>
#include <cerrno>

#include "backends/ibv/errors.hpp"
#include "lci/base/env.hpp"
#include "lci/base/log.hpp"
#include "lci/errors.hpp"
#include "lci/net/connected/fabric.hpp"

namespace lci::ibv {
namespace {

pd_handle make_pd(const chosen_port& card) {
  pd_handle pd(library().alloc_pd(card.context.get()));
  if (!pd) throw_error("ibv_alloc_pd", card.name, errno);
  return pd;
}

std::vector<rail> make_rails(std::vector<chosen_port>& cards) {
  std::vector<rail> out;
  for (std::size_t i = 1; i < cards.size(); ++i) {
    pd_handle pd = make_pd(cards[i]);
    out.push_back({std::move(cards[i]), std::move(pd)});
  }
  return out;
}

void stop_waiting(const chosen_port& card) {
  const int fd = card.context->async_fd;
  fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
}

// What the layers above want where targets are sent along (net::capabilities).
constexpr std::size_t LEAST_INLINE = 88;
constexpr char CARD_FAILED[] = "the card failed";

// Whether a queue pair of that card sends so many bytes inline. Only making one says so.
bool can_inline(ibv_pd* pd, ibv_cq* cq, std::size_t size) {
  ibv_qp_init_attr made{};
  made.send_cq = made.recv_cq = cq;
  made.qp_type = IBV_QPT_RC;
  made.cap = {1, 1, 2, 1, static_cast<std::uint32_t>(size)};
  return qp_handle(library().create_qp(pd, &made)) != nullptr;
}

// What may be asked of every queue pair from now on.
std::size_t inline_limit(const chosen_port& card, ibv_pd* pd, std::size_t wanted) {
  const std::size_t needed = std::max(LEAST_INLINE, wanted);
  const cq_handle cq(library().create_cq(card.context.get(), 1, nullptr, nullptr, 0));
  if (!cq) throw_error("ibv_create_cq", card.name + ", 1 entry", errno);
  if (can_inline(pd, cq.get(), needed)) return needed;
  if (errno != EINVAL)
    throw_error("ibv_create_qp", card.name + ", " + std::to_string(needed) + " bytes inline",
                errno);
  std::size_t fits = 0;
  for (std::size_t step = std::bit_floor(needed); step != 0; step /= 2)
    if (fits + step < needed && can_inline(pd, cq.get(), fits + step)) fits += step;
  throw backend_error("ibv: max_inject_size " + std::to_string(wanted) + " needs " +
                      std::to_string(needed) + " bytes inline, of which a queue pair of " +
                      card.name + " takes at most " + std::to_string(fits));
}

net::capabilities capabilities_of(const chosen_port& card, ibv_pd* pd,
                                  const net::fabric_config& config) {
  net::capabilities caps;
  caps.max_inject = inline_limit(card, pd, config.max_inject_wanted);
  caps.max_send = net::connected::MAX_SEND;
  caps.max_rma = card.state.max_msg_sz != 0 ? card.state.max_msg_sz : std::size_t{1} << 20;
  caps.write_with_immediate = true;
  caps.one_sided = true;
  caps.device_memory = true;
  caps.outlives_stale_keys = false;
  caps.ordered = true;
  caps.orders_puts = true;
  return caps;
}

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

cards::cards(const net::fabric_config& config)
    : cards(net::connected::checked(config, "ibv"), open_ports(settings_of(config))) {}

cards::cards(const net::fabric_config& config, std::vector<chosen_port> ports)
    : config_(config),
      patience_(patience::from_environment()),
      first_(std::move(ports.front())),
      pd_(make_pd(first_)),
      rails_(make_rails(ports)),
      caps_(capabilities_of(first_, pd_.get(), config)) {
  for (std::size_t i = 0; i <= rails_.size(); ++i) {
    const chosen_port& card = at(i);
    stop_waiting(card);
    if (const std::size_t most = card.state.max_msg_sz; i != 0 && most != 0)
      caps_.max_rma = std::min(caps_.max_rma, most);
    log::info("ibv", "%s, %s: %s", card.name.c_str(), card.why.c_str(), describe(card).c_str());
  }
}

std::string cards::names() const {
  std::string out = first_.name;
  for (const rail& one : rails_) out += "," + one.card.name;
  return out;
}

const char* cards::find_failure() noexcept {
  if (const std::unique_lock lock(events_mutex_, std::try_to_lock); lock) {
    for (std::size_t i = 0; i <= rails_.size(); ++i) take_events(i);
  }
  return failure_.load(std::memory_order_relaxed);
}

// The first reason counts. Relaxed: each device sees it at one of its next looks.
void cards::fail(const char* reason) noexcept {
  if (failure_.load(std::memory_order_relaxed) == nullptr)
    failure_.store(reason, std::memory_order_relaxed);
}

// Peers were told the address once. A peer that was met goes on sending to the old one, and no
// other peer would ever find us.
void cards::check_address(const chosen_port& card) noexcept {
  if (!has_moved(card.context.get(), card)) {
    log::info("ibv", "%s: addresses have changed, but not the one in use", card.name.c_str());
    return;
  }
  log::error("ibv", "%s: the address that peers know is no longer its own: %s", card.name.c_str(),
             describe(card).c_str());
  fail("the card's address has changed since peers learned it");
}

// The card may have other ports.
void cards::note_port(std::size_t card, bool is_down) noexcept {
  // Relaxed: a hint, which is_beyond_hope() looks into.
  std::atomic<std::uint64_t>& since = down_since_[card];
  if (!is_down) {
    since.store(0, std::memory_order_relaxed);
    log::info("ibv", "%s: the link is up", at(card).name.c_str());
    return;
  }
  if (since.load(std::memory_order_relaxed) == 0)
    since.store(base::cpu_ticks(), std::memory_order_relaxed);
  log::warn("ibv", "%s: the link is down", at(card).name.c_str());
}

bool cards::is_beyond_hope(std::size_t card, std::uint64_t then, std::uint64_t now) noexcept {
  const std::uint64_t since = down_since_[card].load(std::memory_order_relaxed);
  if (since == 0 || now < std::max(since, then) + patience_.ticks()) return false;
  // Events may have been lost.
  const chosen_port& port = at(card);
  if (!is_up(port.context.get(), port)) return true;
  down_since_[card].store(0, std::memory_order_relaxed);
  return false;
}

void cards::take_events(std::size_t which) noexcept {
  const chosen_port& card = at(which);
  ibv_async_event what{};
  errno = 0;
  while (library().get_async_event(card.context.get(), &what) == 0) {
    switch (what.event_type) {
      case IBV_EVENT_PORT_ERR:
      case IBV_EVENT_PORT_ACTIVE:
        if (what.element.port_num == card.number)
          note_port(which, what.event_type == IBV_EVENT_PORT_ERR);
        break;
      case IBV_EVENT_GID_CHANGE:
      case IBV_EVENT_LID_CHANGE:
        check_address(card);
        break;
      case IBV_EVENT_CQ_ERR:
      case IBV_EVENT_SRQ_ERR:
      case IBV_EVENT_DEVICE_FATAL:
        log::error("ibv", "%s failed (event %d)", card.name.c_str(),
                   static_cast<int>(what.event_type));
        fail(CARD_FAILED);
        break;
      default:
        break;
    }
    library().ack_async_event(&what);
    errno = 0;
  }
  // Of a card that was taken out the kernel says no more.
  if ((errno == EIO || errno == ENODEV) && failure_.load(std::memory_order_relaxed) == nullptr) {
    log::error("ibv", "%s was removed", card.name.c_str());
    fail(CARD_FAILED);
  }
}

}  // namespace lci::ibv
