#include "backends/ibv/fabric.hpp"

#include <fcntl.h>

#include <algorithm>
#include <bit>
#include <cerrno>

#include "backends/ibv/device.hpp"
#include "lci/base/log.hpp"
#include "lci/errors.hpp"
#include "lci/mem/region_table.hpp"

namespace lci::ibv {
namespace {

// Before any member is made.
const net::fabric_config& checked(const net::fabric_config& config) {
  if (config.book == nullptr || config.arena == nullptr || config.regions == nullptr)
    throw backend_error("ibv: a fabric needs an address book, an arena and a table of regions");
  return config;
}

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

near_cards near_of_all(const chosen_port& first, const std::vector<rail>& others) {
  if (others.empty()) return {};
  std::vector<std::string> pcis{first.pci};
  for (const rail& one : others) pcis.push_back(one.card.pci);
  return {this_machine(), pcis};
}

void stop_waiting(const chosen_port& card) {
  const int fd = card.context->async_fd;
  fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
}

// What fits a receive beside its header line, in two pages.
constexpr std::size_t MAX_SEND = 8192 - sizeof(mem::packet);
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
  caps.max_send = MAX_SEND;
  caps.max_rma = card.state.max_msg_sz != 0 ? card.state.max_msg_sz : std::size_t{1} << 20;
  caps.write_with_immediate = true;
  caps.one_sided = true;
  caps.device_memory = true;
  caps.outlives_stale_keys = false;
  caps.ordered = true;
  caps.orders_puts = true;
  return caps;
}

}  // namespace

fabric::fabric(const net::fabric_config& config, std::vector<chosen_port> cards)
    : config_(checked(config)),
      card_(std::move(cards.front())),
      pd_(make_pd(card_)),
      rails_(make_rails(cards)),
      rail_least_(rail_wishes::from_environment().least),
      near_(near_of_all(card_, rails_)),
      caps_(capabilities_of(card_, pd_.get(), config)),
      memory_(pd_.get(), card_.name, config_),
      connector_(card_, pd_.get(), rails_, memory_, *config.book, *config.arena),
      lookups_(memory_, *config.arena, connector_, config.book->size()) {
  stop_waiting(card_);
  caps_.keeps_registrations = memory_.is_keeping();
  base::ticks_per_ms();  // measured here rather than in the first poll
  log::info("ibv", "%s, %s: %s", card_.name.c_str(), card_.why.c_str(), describe(card_).c_str());
  memory_.find_near_by([this](const void* address) { return near_.to(address); });
  for (const rail& one : rails_) {
    stop_waiting(one.card);
    memory_.add_rail(one.pd.get(), one.card.name, rail_least_);
    if (const std::size_t most = one.card.state.max_msg_sz; most != 0)
      caps_.max_rma = std::min(caps_.max_rma, most);
    log::info("ibv", "%s, %s: %s", one.card.name.c_str(), one.card.why.c_str(),
              describe(one.card).c_str());
  }
}

// Without leave() before, peers take this for a death, as soon as they miss us.
fabric::~fabric() = default;

std::unique_ptr<net::device> fabric::make_device(int index, net::device_config& config) {
  port& where = ports_.get(index, [&] {
    auto made = std::make_unique<port>(*this, index, config);
    connector_.add_port(*made);
    return made;
  });
  config = where.config();
  return std::make_unique<device>(*this, where);
}

net::network_names fabric::names() const {
  net::network_names out{"verbs", card_.name};
  for (const rail& one : rails_) out.device += "," + one.card.name;
  return out;
}

void fabric::connect(int rank) noexcept {
  if (rank != config_.book->rank()) ports_.request(rank);
}

net::remote_view fabric::check_remote(int rank, net::remote_key key) noexcept {
  if (rank == config_.book->rank())
    return net::view_of(config_.regions->look_up({key.slot, key.generation}));
  const net::remote_view found = lookups_.find(rank, key);
  if (found.what == net::remote_view::answer::not_connected) connect(rank);
  return found;
}

std::uint64_t fabric::register_region(void* address, std::size_t size, mem::mem_kind kind,
                                      std::string& why_not) {
  return memory_.add(address, size, kind, why_not);
}

// Whoever keeps the row hears of it before anything that is sent on that device from now on.
void fabric::deregister_region(std::uint64_t local_key) noexcept {
  net::remote_key name;
  for (const net::connected::reader& who : memory_.remove(local_key, &name)) {
    ports_.with(who.device, [&](port& one) {
      one.tell(who.rank, {note::kind::withdrawn, name.slot, name.generation, 0});
    });
  }
}

void fabric::publish(net::remote_key name, std::uint64_t local_key) {
  memory_.publish(name, local_key);
}

net::remote_target fabric::target_of(net::remote_key name) noexcept {
  return memory_.target_of(name);
}

void fabric::leave() noexcept {
  ports_.for_each([](port& one) { one.leave(); });
  connector_.leave();
}

const char* fabric::find_failure() noexcept {
  if (const std::unique_lock lock(events_mutex_, std::try_to_lock); lock) {
    for (std::size_t i = 0; i <= rails_.size(); ++i) take_events(i);
  }
  return failure();
}

// The first reason counts. Relaxed: each port sees it at one of its next looks.
void fabric::fail(const char* reason) noexcept {
  if (failure() == nullptr) failure_.store(reason, std::memory_order_relaxed);
}

// Peers were told the address once. Whoever was met goes on sending to the old one, and nobody else
// would ever find us.
void fabric::check_address(const chosen_port& card) noexcept {
  if (!has_moved(card.context.get(), card)) {
    log::info("ibv", "%s: addresses have changed, but not the one in use", card.name.c_str());
    return;
  }
  log::error("ibv", "%s: the address that peers were told is not its own any more: %s",
             card.name.c_str(), describe(card).c_str());
  fail("the card's address has changed since peers were told it");
}

// The card may have other ports.
void fabric::note_port(std::size_t card, bool is_down) noexcept {
  // Relaxed: a hint, which is_beyond_hope() looks into.
  std::atomic<std::uint64_t>& since = down_since_[card];
  if (!is_down) {
    since.store(0, std::memory_order_relaxed);
    log::info("ibv", "%s: the link is up", card_at(card).name.c_str());
    return;
  }
  if (since.load(std::memory_order_relaxed) == 0)
    since.store(base::cpu_ticks(), std::memory_order_relaxed);
  log::warn("ibv", "%s: the link is down", card_at(card).name.c_str());
}

bool fabric::is_beyond_hope(std::size_t card, std::uint64_t then, std::uint64_t now) noexcept {
  const std::uint64_t since = down_since_[card].load(std::memory_order_relaxed);
  if (since == 0 || now < std::max(since, then) + connector_.tries().ticks()) return false;
  // Events may have been lost.
  const chosen_port& port = card_at(card);
  if (!is_up(port.context.get(), port)) return true;
  down_since_[card].store(0, std::memory_order_relaxed);
  return false;
}

void fabric::take_events(std::size_t which) noexcept {
  const chosen_port& card = card_at(which);
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
  if ((errno == EIO || errno == ENODEV) && failure() == nullptr) {
    log::error("ibv", "%s is not there any more", card.name.c_str());
    fail(CARD_FAILED);
  }
}

}  // namespace lci::ibv
