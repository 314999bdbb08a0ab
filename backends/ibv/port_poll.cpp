// The half of a port that polls: what the card reports becomes calls of the sink.
#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <utility>

#include "backends/ibv/errors.hpp"
#include "backends/ibv/fabric.hpp"
#include "backends/ibv/port.hpp"
#include "backends/ibv/work.hpp"
#include "lci/base/log.hpp"

namespace lci::ibv {
namespace {

// Polls between two looks at what is not about messages.
constexpr std::uint32_t LOOK_EVERY = 64;
constexpr std::uint64_t KNOCK_LOOK_MS = 200;  // between two looks at who is silent
constexpr std::uint64_t SILENCE_MS = 1000;    // after which we ask whether a peer is alive
constexpr char NOT_STOPPED[] = "the connection failed and the card did not stop it";

}  // namespace

inline bool port::receive(net::sink& to, const ibv_wc& what, link& from) noexcept {
  receives::place& into = receives::place_of(what.wr_id);
  from.heard_ticks = now_;
  // Who sends to us has heard our number: it may have said so in a hello that was lost.
  if (from.state() == link::stage::calling) [[unlikely]]
    from.move(link::stage::ready);
  const std::uint32_t imm = ntohl(what.imm_data);
  if (from.was_gone_said) [[unlikely]] {
    receives_.again(into);  // nothing comes from who is gone
    return true;
  }
  if (what.opcode == IBV_WC_RECV_RDMA_WITH_IMM) {
    receives_.again(into);
    to.on_immediate(from.rank, imm);
    return true;
  }
  if ((what.wc_flags & IBV_WC_WITH_IMM) == 0) [[unlikely]] {
    take_ours(to, into, what.byte_len, from);
    return true;
  }
  const net::arrival message{from.rank, imm, into.packet->payload(), what.byte_len, into.packet};
  presenting_ = &into;
  const net::verdict answer = to.on_message(message);
  // The sink has polled again: that poll has taken the packet out of its place.
  if (presenting_ != &into) [[unlikely]] {
    if (answer != net::verdict::kept) mem::release_packet(*fabric_.config().arena, message.packet);
    return true;
  }
  presenting_ = nullptr;
  switch (answer) {
    case net::verdict::taken:
      receives_.again(into);
      return true;
    case net::verdict::kept:
      receives_.replace(into);
      return true;
    case net::verdict::deferred:
      break;
  }
  put_back(message, into, from);
  return false;
}

// A completion of a send queue says that everything posted before it is done, too.
inline bool port::sent(net::sink& to, const ibv_wc& what, link& on) noexcept {
  const std::uint64_t last = number_of(what.wr_id);
  const ibv_wc_status status = what.status;
  on.heard_ticks = now_;
  if (status != IBV_WC_SUCCESS) [[unlikely]]
    fail(to, on, meaning_of(status));
  return finish_done(to, on, last, status == IBV_WC_SUCCESS ? nullptr : meaning_of(status).data());
}

// Presents the oldest event, and counts it unless it was the backend's own: who waits for something
// to happen is not to take a keepalive for it. False: it was deferred, and is the oldest still.
inline bool port::present(net::sink& to, std::size_t& count) noexcept {
  // Taken out before the sink runs: a sink that polls again sees what comes after it, and may write
  // over it.
  const ibv_wc& what = *first_++;
  link* const on = by_qpn_.find(what.qp_num);
  if (!is_receive(what.wr_id)) {
    if (on != nullptr) count += sent(to, what, *on);
    return true;
  }
  if (on == nullptr || what.status != IBV_WC_SUCCESS) [[unlikely]] {
    failed_receive(to, what, on);
    return true;
  }
  if (!receive(to, what, *on)) return false;
  ++count;
  return true;
}

// The next batch from the card. False: it has nothing.
inline bool port::fetch(net::sink& to) noexcept {
  first_ = end_ = ring_ + nesting_ - 1;
  const int n = cq_.poll(first_, BATCH);
  if (n > 0) [[likely]] {
    end_ += n;
    return true;
  }
  is_dry_ = true;
  if (n < 0) lose_all(to, "the completion queue cannot be polled");
  return false;
}

std::size_t port::poll(net::sink& to, std::size_t max) noexcept {
  const base::owned_guard guard(polling_);
  if (!guard) return 0;
  ++nesting_;
  // The sink that polls again has done with the bytes of its message. Its packet may have become
  // the program's already; its place must not be missing for as long as a handler takes.
  if (presenting_ != nullptr) [[unlikely]]
    receives_.replace(*std::exchange(presenting_, nullptr));
  if (++polls_ % LOOK_EVERY == 0 || fabric_.calls().has_work() || fabric_.keys().has_work())
      [[unlikely]]
    look_after(to);
  if (pending_errors_.is_due()) [[unlikely]]
    serve_pending_errors(to);
  std::size_t n = 0;
  while (n < max && (first_ != end_ || fetch(to)) && present(to, n)) {
  }
  receives_.post_some();
  if (!sides_.empty()) [[unlikely]]
    poll_sides(to, n < max && first_ == end_);
  if (!self_.is_empty()) [[unlikely]]
    n += self_.poll(to, max);
  --nesting_;
  return n;
}

LCI_COLD void port::failed_receive(net::sink& to, const ibv_wc& what, link* on) noexcept {
  receives_.again(receives::place_of(what.wr_id));
  if (on != nullptr && what.status != IBV_WC_WR_FLUSH_ERR) fail(to, *on, meaning_of(what.status));
}

// Before what a nested poll has fetched and left, or was refused: that came later.
LCI_COLD void port::put_back(const net::arrival& what, const receives::place& into,
                             const link& from) noexcept {
  ibv_wc& again = *--first_;
  again = {};
  again.wr_id = into.wr.wr_id;
  again.status = IBV_WC_SUCCESS;
  again.opcode = IBV_WC_RECV;
  again.byte_len = static_cast<std::uint32_t>(what.size);
  again.imm_data = htonl(what.imm);
  again.qp_num = from.qp->qp_num;
  again.wc_flags = IBV_WC_WITH_IMM;
}

// A message from the peer's fabric to this one.
LCI_COLD void port::take_ours(net::sink& to, receives::place& into, std::uint32_t size,
                              link& from) noexcept {
  note said;
  if (size == 0)
    end(to, from, link::stage::left, "the peer took leave");
  else if (decode(into.packet->payload(), size, said))
    take_note(said, from);
  receives_.again(into);
}

bool port::finish(net::sink& to, link& on, const send_record& record, const char* error) noexcept {
  if (record.packet != nullptr) mem::release_packet(*fabric_.config().arena, record.packet);
  if (record.key != 0) fabric_.memory().remove(record.key);
  switch (record.what) {
    case purpose::knock:
      on.knocked_ticks = 0;
      return false;
    case purpose::farewell:
      return false;
    case purpose::look_up:
      fabric_.keys().on_read(*this, record.context, error == nullptr);
      return true;
    case purpose::part:
      part_done(to, *static_cast<split*>(record.context), error);
      return true;
    case purpose::news:
      finish_split(to, *static_cast<split*>(record.context), error);
      return true;
    case purpose::user:
      break;
  }
  if (record.context != nullptr) {
    if (error == nullptr)
      to.on_complete(record.context);
    else
      to.on_error(on.rank, record.context, error);
  }
  // Last: who sees that nothing is open may take all of this down.
  on.finish_user();
  return true;
}

// The connection is of no use any more, because the peer has left or because it failed. What was
// posted and is not answered comes back flushed, or from here if the card does not even stop.
void port::end(net::sink& to, link& on, link::stage how, std::string_view reason) noexcept {
  on.move(how);
  if (on.was_gone_said) return;
  on.was_gone_said = true;
  const auto stop = [](const link& one) {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_ERR;
    return library().modify_qp(one.qp.get(), &attr, IBV_QP_STATE) == 0;
  };
  const bool is_stopped = stop(on);
  std::array<link*, MAX_RAILS> running{};
  for (std::size_t i = 0; i < sides_.size(); ++i) {
    link* const beside = sides_[i]->find(on.rank);
    if (beside == nullptr) continue;
    beside->move(how);
    if (!stop(*beside)) running[i] = beside;
  }
  fabric_.keys().forget(on.rank);
  // Who was given up before there was this connection is gone already.
  if (!unreachable_.is_told(on.rank)) to.on_peer_gone(on.rank, how == link::stage::left, reason);
  if (!is_stopped) lose(to, on, NOT_STOPPED);
  for (link* const beside : running)
    if (beside != nullptr) lose(to, *beside, NOT_STOPPED);
}

void port::take_note(const note& what, const link& from) noexcept {
  const net::remote_key name{what.slot, what.generation};
  if (what.what == note::kind::withdrawn)
    fabric_.keys().drop(from.rank, name);
  else if (!fabric_.memory().add_reader(name, {from.rank, index_}))
    tell(from.rank, {note::kind::withdrawn, name.slot, name.generation, 0});
}

void port::serve_pending_errors(net::sink& to) noexcept {
  pending_errors_.serve(to, [&](int rank, const note& what) { tell(rank, what); });
  serve_splits(to);
}

void port::look_after(net::sink& to) noexcept {
  now_ = base::cpu_ticks();
  fabric_.calls().look();
  if (fabric_.keys().has_work()) fabric_.keys().serve(*this);
  receives_.post();
  if (unreachable_.has_news()) [[unlikely]]
    tell_unreachable(to);
  if (now_ < next_knock_) return;
  next_knock_ = now_ + KNOCK_LOOK_MS * base::ticks_per_ms();
  if (const char* const why = fabric_.find_failure()) return fail_card(to, why);
  knock(to);
}

// Ranks that cannot be met, each once. What is posted to them is refused from then on.
LCI_COLD void port::tell_unreachable(net::sink& to) noexcept {
  unreachable_.serve([&](int rank, const char* why) {
    if (link* const on = find(rank); on != nullptr) {
      if (on->state() == link::stage::calling) fail(to, *on, why);
      return;
    }
    unreachable_.set_told(rank);
    fabric_.keys().forget(rank);
    to.on_peer_gone(rank, false, why);
  });
}

void port::fail_all(net::sink& to, std::string_view reason) noexcept {
  for (const std::atomic<link*>& one : links_) {
    link* const on = one.load(std::memory_order_acquire);  // edge ibv.link
    if (on != nullptr && on->state() <= link::stage::ready) fail(to, *on, reason);
  }
}

// A card that still works flushes what is under way, with how each of it ended. It has one look's
// time for that; then nobody waits for it any more.
LCI_COLD void port::fail_card(net::sink& to, const char* reason) noexcept {
  if (!std::exchange(was_card_failed_, true)) return fail_all(to, reason);
  lose_all(to, reason);
  for (const auto& one : sides_) lose_side(to, *one, reason);
}

// Everything that was posted there fails, since nobody will hear how it ended, or needs to. What
// the card says of it later finds nothing.
LCI_COLD void port::lose(net::sink& to, link& on, const char* reason) noexcept {
  on.settle();
  send_record record;
  std::uint64_t number = 0;
  while (on.take_done(on.last_posted(), record, number)) finish(to, on, record, reason);
}

// The same of all connections.
LCI_COLD void port::lose_all(net::sink& to, const char* reason) noexcept {
  fail_all(to, reason);
  for (const std::atomic<link*>& one : links_) {
    link* const on = one.load(std::memory_order_acquire);  // edge ibv.link
    if (on != nullptr) lose(to, *on, reason);
  }
}

// A queue pair says nothing of a peer to which nothing is sent. So whoever was silent for a while
// gets a write of no bytes, which its card acknowledges without its help, or nobody does.
void port::knock(net::sink& to) noexcept {
  for (const std::atomic<link*>& one : links_) {
    link* const on = one.load(std::memory_order_acquire);  // edge ibv.link
    if (on == nullptr) continue;
    if (on->state() > link::stage::ready) {
      // It took leave before there was a connection.
      if (!on->was_gone_said) end(to, *on, link::stage::left, "the peer took leave");
      continue;
    }
    if (has_died(*on)) {
      fail(to, *on, "its process is gone");
      continue;
    }
    if (on->state() == link::stage::calling) continue;
    if (on->heard_ticks == 0) on->heard_ticks = now_;
    const bool is_silent = now_ >= on->heard_ticks + SILENCE_MS * base::ticks_per_ms();
    // A card that refuses to send is asked at once.
    if (is_beyond_hope(*on)) {
      fail(to, *on, "no acknowledgement: the port of this machine is down");
      continue;
    }
    if (on->knocked_ticks != 0 || (!is_silent && on->refused() == 0)) continue;
    std::uint64_t address = 0;
    std::uint32_t key = 0;
    if (!fabric_.calls().directory_of(on->rank, address, key)) continue;
    work nothing(IBV_WR_RDMA_WRITE);
    nothing.aim(address, key);
    on->forgive();
    const errorcode_t code = on->post(nothing.wr, {.what = purpose::knock});
    if (code == errorcode_t::done) on->knocked_ticks = now_;
    if (code == errorcode_t::retry_nomem && on->refused() != 0)
      fail(to, *on, "the card refuses to send on this connection");
  }
  is_dry_ = false;
}

// The card should have said that nobody answers. One that does not even send while its port is down
// may never say it: soft-RoCE, when what it has sent is held up below it
// (docs/virtual-machines.md).
bool port::is_beyond_hope(const link& on) noexcept {
  if (on.knocked_ticks != 0 && fabric_.is_beyond_hope(0, on.knocked_ticks, now_)) return true;
  for (std::size_t i = 0; i < sides_.size(); ++i) {
    link* const beside = sides_[i]->find(on.rank);
    if (beside == nullptr) continue;
    // Nobody knocks there: since when it is seen to be busy, and nothing was done.
    if (beside->is_idle())
      beside->heard_ticks = 0;
    else if (beside->heard_ticks == 0)
      beside->heard_ticks = now_;
    else if (fabric_.is_beyond_hope(i + 1, beside->heard_ticks, now_))
      return true;
  }
  return false;
}

// Of a peer on this machine we see that it has ended, also one that was never met. What it sent
// before is in the queue by then, so the queue is emptied first.
bool port::has_died(link& on) noexcept {
  if (on.is_missed) return is_dry_;
  on.is_missed = fabric_.calls().has_died(on.rank);
  return false;
}

}  // namespace lci::ibv
