#include "backends/ofi/device_queues.hpp"

#include <algorithm>
#include <cstring>
#include <iterator>

#include "backends/ofi/sockets.hpp"
#include "lci/errors.hpp"
#include "lci/net/connected/fabric.hpp"

namespace lci::ofi {
namespace {

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

device_queues::device_queues(const opened_domain& domain, const net::fabric_config& config,
                             regions& memory, net::connected::connect_requests& requests, int index,
                             const net::device_config& wanted)
    : net::connected::device_queues<connection, note>(config, net::connected::MAX_SEND, index,
                                                      wanted, requests),
      domain_(domain),
      memory_(memory),
      me_(config.book->rank()),
      head_(domain.head()),
      inject_(inject_limit(*domain.info, head_)),
      queues_(queues::open(domain, config_.max_cqes, ranks())),
      name_(queues_.name(domain)),
      receives_(queues_, domain, memory, packets_, config_.max_recvs),
      missed_(ranks()),
      locks_sends_((config_.ofi_lock_mode & LCI_NET_TRYLOCK_SEND) != 0) {
  if ((config_.ofi_lock_mode & LCI_NET_LOCK_MR) != 0) memory.serialise();
}

// Layered providers fall over connections that the other side has closed, or that bring a write, or
// leave their sockets behind, if they have not seen an end. They look at connections in a read, but
// not in every one.
void device_queues::see_ends() noexcept {
  // The endpoint of a peer's device talks to this one alone, so no other device loses a connection.
  const auto is_ours = [this](const endpoint_name& here, const endpoint_name& there) {
    if (is_same_address(here, name_)) return true;
    return !are_all([&](const connection& on) { return !is_same_address(there, on.name); });
  };
  const bool is_layered =
      std::string_view(domain_.info->fabric_attr->prov_name).ends_with(";ofi_rxm");
  if (is_layered) hang_up(is_ours);
  fi_cq_data_entry done[32];
  fi_cq_err_entry failed{};
  const bool is_late = is_layered && !are_all([](const connection& on) {
                         return on.state() != connection::stage::failed;
                       });
  const std::uint64_t until = base::cpu_ticks() + (is_late ? SEE_MS * base::ticks_per_ms() : 0);
  for (int i = 0; i < LAST_READS || base::cpu_ticks() < until; ++i)
    if (fi_cq_read(queues_.cq.get(), done, std::size(done)) == -FI_EAVAIL)
      fi_cq_readerr(queues_.cq.get(), &failed, 0);
}

device_queues::~device_queues() {
  see_ends();
  // Nothing is touched by the provider from here on.
  queues_.ep.reset();
  receives_.give_back();
  for_each([&](connection& on) {
    on.for_each([&](work& left) {
      give_back_late(left);
      works_.put(&left);
    });
  });
}

connection& device_queues::make_connection(int rank) {
  return add(std::make_unique<connection>(
      rank, static_cast<std::uint32_t>(std::max<std::size_t>(config_.max_sends, 1))));
}

work* device_queues::new_work(connection& on, purpose why) noexcept {
  try {
    work* const out = works_.get();
    out->clear(on, why);
    return out;
  } catch (...) {
    return nullptr;
  }
}

errorcode_t device_queues::drop(work& one, errorcode_t answer) noexcept {
  works_.put(&one);
  return answer;
}

// The provider did not take it. For good: the peer is given up at the next look.
LCI_COLD errorcode_t device_queues::refuse(connection& on, work& one, long code) noexcept {
  if (!is_again(code)) on.set_refused(static_cast<int>(-code));
  return take_back(on, one, errorcode_t::retry_nomem);
}

// Its end may have been told meanwhile, since the connection has ended: then it counts as posted,
// and what it holds is ours.
LCI_COLD errorcode_t device_queues::take_back(connection& on, work& one,
                                              errorcode_t answer) noexcept {
  if (on.leave(one)) return drop(one, answer);
  give_back_late(one);
  return drop(one, errorcode_t::done);
}

LCI_COLD void device_queues::give_back_late(const holding& one) noexcept {
  if (one.packet != nullptr) mem::release_late(arena_, one.packet);
  if (one.key != 0) memory_.remove(one.key);
}

// Bytes that are free at once. Under the lock of sends.
inline long device_queues::give(const connection& on, std::uint64_t word, const void* bytes,
                                std::size_t size) noexcept {
  return head_ != 0 ? fi_inject(queues_.ep.get(), bytes, size, on.peer)
                    : fi_injectdata(queues_.ep.get(), bytes, size, word, on.peer);
}

errorcode_t device_queues::inject(connection& on, std::uint64_t word, const void* bytes,
                                  std::size_t size) noexcept {
  // As in post().
  if (on.state() != connection::stage::ready || on.refused() != 0) [[unlikely]]
    return on.refusal();
  if (!lock_sends()) [[unlikely]]
    return errorcode_t::retry_lock;
  const long code = give(on, word, bytes, size);
  unlock_sends();
  if (code == 0) [[likely]]
    return errorcode_t::done;
  if (!is_again(code)) on.set_refused(static_cast<int>(-code));
  return errorcode_t::retry_nomem;
}

errorcode_t device_queues::send_small(connection& on, std::uint64_t word, const void* head,
                                      std::size_t head_size, const void* payload,
                                      std::size_t size) noexcept {
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

// In one of our own packets.
LCI_COLD errorcode_t device_queues::send_copy(connection& on, std::uint64_t word, const void* head,
                                              std::size_t head_size, const void* payload,
                                              std::size_t size) noexcept {
  mem::packet* const packet = packets_.get();
  if (packet == nullptr) return errorcode_t::retry_nomem;
  if (head_size != 0) std::memcpy(packet->payload(), head, head_size);
  if (size != 0) std::memcpy(packet->payload() + head_size, payload, size);
  work* const one = new_work(on, purpose::ours);
  const errorcode_t code = one != nullptr ? send_packet(on, word, *packet, head_size + size, *one)
                                          : errorcode_t::retry_nomem;
  if (code != errorcode_t::done) mem::pool_of(*packet).put(packet);
  return code;
}

errorcode_t device_queues::send_packet(connection& on, std::uint64_t word, mem::packet& packet,
                                       std::size_t size, work& one) noexcept {
  std::byte* const at = packet.payload() - head_;
  if (head_ != 0) std::memcpy(at, &word, sizeof(word));
  void* local = nullptr;
  if (!memory_.find_local(at, head_ + size, mem::mem_kind::host, 0, local))
    return drop(one, errorcode_t::retry_nomem);
  one.packet = &packet;
  return post(on, one, [&](fid_ep* ep, ticket* context) {
    return head_ != 0 ? fi_send(ep, at, head_ + size, local, on.peer, context)
                      : fi_senddata(ep, at, size, local, word, on.peer, context);
  });
}

// Not as a packet: nothing may be posted on it any more that completes. A peer that cannot be told
// so is not told.
LCI_COLD bool device_queues::say_failed(const connection& on) noexcept {
  if (sizeof(note) > inject_) return true;
  struct {
    std::uint64_t head;
    note said;
  } last{word::make(me_, word::kind::note, 0), {.what = note::kind::disconnect, .count = 1}};
  if (!lock_sends()) return false;
  const long code = head_ != 0 ? give(on, last.head, &last, sizeof(last))
                               : give(on, last.head, &last.said, sizeof(last.said));
  unlock_sends();
  return !is_again(code);
}

void device_queues::tell(int rank, const note& what) noexcept {
  due_notices_.tell(rank, what, [this](int to, const note& one) { return send_note(to, one); });
}

// True: it is not needed any more, or it is out.
bool device_queues::send_note(int rank, const note& what) noexcept {
  connection* const on = find(rank);
  if (on == nullptr || on->state() > connection::stage::ready) return true;
  // The peer's address is not known yet.
  if (on->state() != connection::stage::ready) return false;
  return send_small(*on, word::make(me_, word::kind::note, 0), &what, sizeof(what), nullptr, 0) ==
         errorcode_t::done;
}

}  // namespace lci::ofi
