#include "backends/ofi/port.hpp"

#include <algorithm>
#include <cstring>

#include "backends/ofi/connections.hpp"
#include "backends/ofi/fabric.hpp"
#include "lci/base/log.hpp"
#include "lci/errors.hpp"
#include "lci/net/connected/null_sink.hpp"

namespace lci::ofi {
namespace {

// Packets for receives and for copies; they are made as they are needed.
constexpr std::size_t LEAST_PACKETS = 512;
// A provider sends a farewell at once, or the peer is not reading.
constexpr std::uint64_t FAREWELL_MS = 2000;
// What is put together before it is injected.
constexpr std::size_t MOST_INJECTED = 512;
constexpr int LAST_READS = 64;
// rxm looks each 10 ms (FI_OFI_RXM_CM_PROGRESS_INTERVAL).
constexpr std::uint64_t SEE_MS = 25;

std::size_t inject_limit(const fi_info& info, std::size_t head) noexcept {
  const std::size_t limit = std::min(info.tx_attr->inject_size, MOST_INJECTED);
  return limit > head ? limit - head : 0;
}

}  // namespace

port::port(fabric& owner, int index, const net::device_config& wanted)
    : fabric_(owner),
      index_(index),
      config_(wanted),
      head_(owner.head()),
      inject_(inject_limit(*owner.domain().info, head_)),
      packets_(*owner.config().arena, sizeof(mem::packet) + owner.caps().max_send,
               std::max<std::size_t>(config_.max_recvs, LEAST_PACKETS)),
      queues_(
          queues::open(owner.domain(), config_.max_cqes, static_cast<std::size_t>(owner.size()))),
      name_(queues_.name(owner.domain())),
      receives_(queues_, owner.domain(), owner.memory(), packets_, config_.max_recvs, head_),
      self_(owner.rank(), packets_, *owner.config().regions),
      ranks_(static_cast<std::size_t>(owner.size())),
      links_(ranks_),
      pending_(ranks_),
      locks_sends_((config_.ofi_lock_mode & LCI_NET_TRYLOCK_SEND) != 0),
      missed_(ranks_),
      unreachable_(ranks_) {
  if ((config_.ofi_lock_mode & LCI_NET_LOCK_MR) != 0) owner.memory().serialise();
}

// Layered providers fall over connections that the other side has closed, or that bring a write, or
// leave their sockets behind, if they have not seen an end. They look at connections in a read, but
// not in every one.
void port::see_ends() noexcept {
  // The endpoint of a peer's device talks to this one alone, so no other device loses a connection.
  const auto is_ours = [this](const endpoint_name& here, const endpoint_name& there) {
    if (is_same_address(here, name_)) return true;
    const auto goes_there = [&](const auto& one) { return is_same_address(there, one->name); };
    return std::any_of(link_store_.begin(), link_store_.end(), goes_there);
  };
  if (std::string_view(fabric_.domain().info->fabric_attr->prov_name).ends_with(";ofi_rxm"))
    hang_up(is_ours);
  fi_cq_data_entry done[BATCH];
  fi_cq_err_entry failed{};
  const auto has_failed = [](const auto& one) { return one->state() == link::stage::failed; };
  const bool is_late = std::any_of(link_store_.begin(), link_store_.end(), has_failed);
  const std::uint64_t until = base::cpu_ticks() + (is_late ? SEE_MS * base::ticks_per_ms() : 0);
  for (int i = 0; i < LAST_READS || base::cpu_ticks() < until; ++i)
    if (fi_cq_read(queues_.cq.get(), done, BATCH) == -FI_EAVAIL)
      fi_cq_readerr(queues_.cq.get(), &failed, 0);
}

port::~port() {
  see_ends();
  // Nothing is touched by the provider from here on.
  queues_.ep.reset();
  receives_.give_back();
  for (const auto& one : link_store_) {
    one->for_each([&](work& left) {
      if (left.packet != nullptr) mem::release_packet(*fabric_.config().arena, left.packet);
      fabric_.memory().remove(left.key);
      works_.put(&left);
    });
  }
}

LCI_COLD errorcode_t port::no_link(int rank) noexcept {
  if (static_cast<std::size_t>(rank) >= ranks_) return errorcode_t::fatal;
  if (unreachable_.is_told(rank)) return errorcode_t::fatal;
  request(rank);
  return errorcode_t::retry_nomem;
}

void port::request(int rank) noexcept {
  if (unreachable_.has(rank)) return;
  if (pending_.add(rank)) fabric_.calls().request();
}

link& port::make_link(int rank) {
  link_store_.push_back(std::make_unique<link>(
      rank, static_cast<std::uint32_t>(std::max<std::size_t>(config_.max_sends, 1))));
  link& out = *link_store_.back();
  // edge ofi.link: partner is find().
  links_[static_cast<std::size_t>(rank)].store(&out, std::memory_order_release);
  return out;
}

work* port::new_work(link& on, purpose why) noexcept {
  try {
    work* const out = works_.get();
    out->clear(on, why);
    return out;
  } catch (...) {
    return nullptr;
  }
}

errorcode_t port::drop(work& one, errorcode_t answer) noexcept {
  works_.put(&one);
  return answer;
}

// The provider did not take it. For good: the peer is given up at the next look.
LCI_COLD errorcode_t port::refuse(link& on, work& one, long code) noexcept {
  if (!is_again(code)) on.set_refused(static_cast<int>(-code));
  // Its end may have been told meanwhile, since the link has ended: then it counts as posted.
  const bool is_untold = on.leave(one);
  return drop(one, is_untold ? errorcode_t::retry_nomem : errorcode_t::done);
}

errorcode_t port::inject(link& on, std::uint64_t word, const void* bytes,
                         std::size_t size) noexcept {
  if (on.state() != link::stage::ready) [[unlikely]]
    return on.refusal();
  if (!lock_sends()) [[unlikely]]
    return errorcode_t::retry_lock;
  const long code = head_ != 0 ? fi_inject(queues_.ep.get(), bytes, size, on.peer)
                               : fi_injectdata(queues_.ep.get(), bytes, size, word, on.peer);
  unlock_sends();
  if (code == 0) [[likely]]
    return errorcode_t::done;
  if (!is_again(code)) on.set_refused(static_cast<int>(-code));
  return errorcode_t::retry_nomem;
}

errorcode_t port::send_small(link& on, std::uint64_t word, const void* head, std::size_t head_size,
                             const void* payload, std::size_t size) noexcept {
  const std::size_t all = head_size + size;
  if (all > inject_) [[unlikely]]
    return send_copy(on, word, head, head_size, payload, size);
  if (head_ == 0 && head_size == 0) return inject(on, word, payload, size);
  if (head_ == 0 && size == 0) return inject(on, word, head, head_size);
  std::byte both[MOST_INJECTED];
  if (head_ != 0) std::memcpy(both, &word, sizeof(word));
  if (head_size != 0) std::memcpy(both + head_, head, head_size);
  if (size != 0) std::memcpy(both + head_ + head_size, payload, size);
  return inject(on, word, both, head_ + all);
}

// In a packet of ours.
LCI_COLD errorcode_t port::send_copy(link& on, std::uint64_t word, const void* head,
                                     std::size_t head_size, const void* payload,
                                     std::size_t size) noexcept {
  mem::packet* const packet = packets_.get();
  if (packet == nullptr) return errorcode_t::retry_nomem;
  if (head_size != 0) std::memcpy(packet->payload(), head, head_size);
  if (size != 0) std::memcpy(packet->payload() + head_size, payload, size);
  work* const one = new_work(on, purpose::ours);
  const errorcode_t code = one != nullptr ? send_packet(on, word, *packet, head_size + size, *one)
                                          : errorcode_t::retry_nomem;
  if (code != errorcode_t::done) packet->pool->put(packet);
  return code;
}

errorcode_t port::send_packet(link& on, std::uint64_t word, mem::packet& packet, std::size_t size,
                              work& one) noexcept {
  std::byte* const at = packet.payload() - head_;
  if (head_ != 0) std::memcpy(at, &word, sizeof(word));
  void* local = nullptr;
  if (!fabric_.memory().find_local(at, head_ + size, mem::mem_kind::host, 0, local))
    return drop(one, errorcode_t::retry_nomem);
  one.packet = &packet;
  return post(on, one, [&](fid_ep* ep, ticket* context) {
    return head_ != 0 ? fi_send(ep, at, head_ + size, local, on.peer, context)
                      : fi_senddata(ep, at, size, local, word, on.peer, context);
  });
}

errorcode_t port::send_note(link& on, const note& what) noexcept {
  return send_small(on, word::make(fabric_.rank(), word::kind::note, 0), &what, sizeof(what),
                    nullptr, 0);
}

void port::tell(int rank, const note& what) noexcept {
  link* const on = find(rank);
  if (on == nullptr || on->state() > link::stage::ready) return;
  if (send_note(*on, what) == errorcode_t::done) return;
  pending_errors_.add_note(rank, what);
}

bool port::is_drained() const noexcept {
  // edge ofi.users: partner is end_user().
  return pending_errors_.are_failures_told() && self_.is_empty() &&
         users_.load(std::memory_order_acquire) == 0;
}

bool port::fail_later(int rank, void* context, const char* reason) noexcept {
  return pending_errors_.add_failure(rank, context, reason);
}

void port::miss(int rank, const char* why) noexcept {
  // edge ofi.missed: the text before its address; partner is look_at_links().
  missed_[static_cast<std::size_t>(rank)].store(why, std::memory_order_release);
}

void port::leave(bool says_farewell) noexcept {
  net::connected::null_sink listener;
  const std::uint64_t deadline = base::cpu_ticks() + FAREWELL_MS * base::ticks_per_ms();
  const auto in_time = [&] { return base::cpu_ticks() < deadline; };
  note last;
  last.what = says_farewell ? note::kind::farewell : note::kind::knock;
  const std::uint64_t ours = word::make(fabric_.rank(), word::kind::note, 0);
  for (const std::atomic<link*>& one : links_) {
    link* const on = one.load(std::memory_order_acquire);  // edge ofi.link
    if (on == nullptr) continue;
    // As a packet: its completion says that all before it has gone.
    while (on->state() == link::stage::ready && in_time() &&
           send_copy(*on, ours, &last, sizeof(last), nullptr, 0) != errorcode_t::done)
      poll(listener, BATCH);
  }
  const auto is_said = [](const std::atomic<link*>& one) {
    const link* const on = one.load(std::memory_order_acquire);  // edge ofi.link
    return on == nullptr || on->is_idle() || on->state() != link::stage::ready;
  };
  while (!std::all_of(links_.begin(), links_.end(), is_said) && in_time()) poll(listener, BATCH);
}

}  // namespace lci::ofi
