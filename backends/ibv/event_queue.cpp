#include "backends/ibv/event_queue.hpp"

#include <arpa/inet.h>

#include <algorithm>
#include <array>

#include "backends/ibv/errors.hpp"
#include "backends/ibv/queue_pair.hpp"
#include "backends/ibv/work.hpp"
#include "lci/base/log.hpp"

namespace lci::ibv {
namespace {

constexpr std::uint64_t SILENCE_MS = 1000;  // after which we ask whether a peer is alive
// A message that is deferred again and again holds up the end of what is of no use for so many.
constexpr int MOST_LOOKS = 10;
constexpr char NOT_STOPPED[] = "the connection failed and the card did not stop it";

}  // namespace

inline bool event_queue::receive(net::sink& to, const ibv_wc& what, connection& from) noexcept {
  place& into = receives::place_of(what.wr_id);
  from.hear(now_);
  if (from.state() == stage::calling) [[unlikely]]
    meet(from);
  const std::uint32_t imm = ntohl(what.imm_data);
  if (from.was_end_reported) [[unlikely]] {
    receives_.again(into);  // nothing comes from a rank that has ended
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
  if (deliver(to, message, into)) [[likely]]
    return true;
  put_back_message(message, into, from);
  return false;
}

// A completion of a send queue says that everything posted before it is done, too.
inline bool event_queue::sent(net::sink& to, const ibv_wc& what, connection& on) noexcept {
  const std::uint64_t last = number_of(what.wr_id);
  const ibv_wc_status status = what.status;
  on.hear(now_);
  if (status != IBV_WC_SUCCESS) [[unlikely]]
    fail(to, on, meaning_of(status));
  return finish_done(to, on, last, status == IBV_WC_SUCCESS ? nullptr : meaning_of(status).data());
}

// Presents the oldest event, and counts it unless it was the backend's own: a thread that waits for
// something must not take a keepalive for it. False: it was deferred, and is the oldest still.
inline bool event_queue::present(net::sink& to, std::size_t& count) noexcept {
  // Taken out before the sink runs: a sink that polls again sees what comes after it, and may write
  // over it.
  const ibv_wc& what = *first_++;
  connection* const on = by_qpn_.find(what.qp_num);
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
inline bool event_queue::fetch(net::sink& to) noexcept {
  const int n = cq_.poll(next_batch(), BATCH);
  if (n > 0) [[likely]] {
    end_ += n;
    return true;
  }
  is_dry_ = true;
  if (n < 0) lose_all(to, "the completion queue cannot be polled");
  return false;
}

inline std::size_t event_queue::present_some(net::sink& to, std::size_t max) noexcept {
  std::size_t n = 0;
  while (n < max && (first_ != end_ || fetch(to))) {
    if (!present(to, n)) [[unlikely]] {
      present_completions(to, max, n);
      break;
    }
  }
  receives_.post_some();
  if (rails() != nullptr) [[unlikely]]
    rails()->poll(to, n < max && first_ == end_);
  return n;
}

// An error stays where it is: it would end a connection of which messages wait here.
LCI_COLD void event_queue::present_completions(net::sink& to, std::size_t max,
                                               std::size_t& count) noexcept {
  const auto read = [&](ibv_wc* into, int most) { return cq_.poll(into, most); };
  const auto is_completion = [](const ibv_wc& one) {
    return !is_receive(one.wr_id) && one.status == IBV_WC_SUCCESS;
  };
  present_behind(max, count, read, is_completion, [&](const ibv_wc& done) {
    connection* const on = by_qpn_.find(done.qp_num);
    return on != nullptr && sent(to, done, *on);
  });
}

std::size_t event_queue::poll(net::sink& to, std::size_t max) noexcept {
  return poll_once(to, max);
}

LCI_COLD void event_queue::failed_receive(net::sink& to, const ibv_wc& what,
                                          connection* on) noexcept {
  receives_.again(receives::place_of(what.wr_id));
  if (on != nullptr && what.status != IBV_WC_WR_FLUSH_ERR) fail(to, *on, meaning_of(what.status));
}

LCI_COLD void event_queue::put_back_message(const net::arrival& what, const place& into,
                                            const connection& from) noexcept {
  ibv_wc& again = put_back();
  again.wr_id = into.wr.wr_id;
  again.status = IBV_WC_SUCCESS;
  again.opcode = IBV_WC_RECV;
  again.byte_len = static_cast<std::uint32_t>(what.size);
  again.imm_data = htonl(what.imm);
  again.qp_num = from.qp->qp_num;
  again.wc_flags = IBV_WC_WITH_IMM;
}

// A message from the peer's fabric to this one.
LCI_COLD void event_queue::take_ours(net::sink& to, place& into, std::uint32_t size,
                                     connection& from) noexcept {
  note said;
  if (size == 0)
    end(to, from, stage::left, net::connected::DISCONNECTED);
  else if (decode(into.packet->payload(), size, said))
    take_note(said, from);
  receives_.again(into);
}

bool event_queue::finish(net::sink& to, connection& on, const send_record& record,
                         const char* error) noexcept {
  if (record.packet != nullptr) mem::release_packet(arena_, record.packet);
  if (record.key != 0) memory_.remove(record.key);
  switch (record.what) {
    case purpose::keepalive:
      on.keepalive_ticks = 0;
      return false;
    case purpose::disconnect:
      return false;
    case purpose::look_up:
      keys_.on_read(*this, record.context, error == nullptr);
      return true;
    case purpose::part:
    case purpose::news:
      rails()->finish(to, record, error);
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
  // Last: a thread that sees that nothing is open may take all of this down.
  on.finish_user();
  return true;
}

// What was posted and is not answered comes back flushed, or from drop_posted() if the card does
// not even stop.
void event_queue::stop(connection& on) noexcept {
  stop_queue_pair(on);
  if (rails() != nullptr) rails()->stop(on);
}

void event_queue::drop_posted(net::sink& to, connection& on, std::string_view) noexcept {
  if (!on.is_stopped) lose(to, on, NOT_STOPPED);
  if (rails() != nullptr) rails()->drop_posted(to, on, NOT_STOPPED);
}

void event_queue::take_note(const note& what, const connection& from) noexcept {
  const net::remote_key name{what.slot, what.generation};
  if (what.what == note::kind::withdrawn)
    keys_.withdraw(from.rank, name);
  else if (!memory_.add_reader(name, from.rank) && !memory_.is_without_key(name))
    tell_withdrawn(from.rank, name);
}

void event_queue::serve_pending(net::sink& to) noexcept {
  base_queue::serve_pending(to);
  if (rails() != nullptr) rails()->serve(to);
}

void event_queue::look_at_all(net::sink& to) noexcept {
  if (const char* const why = cards_.find_failure())
    fail_card(to, why);
  else
    base_queue::look_at_all(to);
  is_dry_ = false;
}

void event_queue::fail_all(net::sink& to, std::string_view reason) noexcept {
  for_each([&](connection& on) {
    if (on.state() <= stage::ready) fail(to, on, reason);
  });
}

// Of something that is of no use any more, at each look at it: whether what had arrived before is
// presented. looks: how many have found it so.
LCI_COLD bool event_queue::is_read_out(int& looks) const noexcept {
  // At the first one the queue may have been empty before the rest came.
  const bool was_empty = is_dry_ && looks != 0;
  return was_empty || looks++ >= MOST_LOOKS;
}

// What has arrived is in the queue and comes first. A card that still works flushes what is under
// way then, with how each of it ended. It has one more look's time for that; then it is waited for
// no longer.
LCI_COLD void event_queue::fail_card(net::sink& to, const char* reason) noexcept {
  if (was_card_failed_) {
    lose_all(to, reason);
    if (rails() != nullptr) rails()->lose_all(to, reason);
  } else if (is_read_out(failed_looks_)) {
    was_card_failed_ = true;
    fail_all(to, reason);
  }
}

// Everything that was posted there fails, since how it ended will not be known, nor need it be.
// What the card says of it later finds nothing.
LCI_COLD void event_queue::lose(net::sink& to, connection& on, const char* reason) noexcept {
  on.settle();
  send_record record;
  std::uint64_t number = 0;
  while (on.take_done(on.last_posted(), record, number)) finish(to, on, record, reason);
}

// The same of all connections.
LCI_COLD void event_queue::lose_all(net::sink& to, const char* reason) noexcept {
  fail_all(to, reason);
  for_each([&](connection& on) { lose(to, on, reason); });
}

void event_queue::look_at(net::sink& to, connection& on) noexcept {
  if (has_died(on))
    return fail(to, on, calls_.has_died(on.rank) ? "its process has ended" : "the rank has failed");
  if (on.state() == stage::calling) return;
  const char* const why = find_failure(on);
  if (why == nullptr)
    on.failed_looks = 0;
  else if (is_read_out(on.failed_looks))
    fail(to, on, why);
}

// Why this side cannot go on with it; null: it can. A queue pair says nothing of a peer to which
// nothing is sent. So a peer that was silent for a while gets a write of no bytes, which its card
// acknowledges without its help, or which stays unacknowledged.
const char* event_queue::find_failure(connection& on) noexcept {
  if (on.heard_ticks() == 0) on.hear(now_);
  const bool is_silent = now_ >= on.heard_ticks() + SILENCE_MS * base::ticks_per_ms();
  if (is_beyond_hope(on)) return "no acknowledgement: the port of this machine is down";
  // A card that refuses to send is asked at once.
  if (on.keepalive_ticks != 0 || (!is_silent && on.refused() == 0)) return nullptr;
  std::uint64_t address = 0;
  std::uint32_t key = 0;
  if (!calls_.directory_of(on.rank, address, key)) return nullptr;
  work nothing(IBV_WR_RDMA_WRITE);
  nothing.aim(address, key);
  on.forgive();
  const errorcode_t code = on.post(nothing.wr, {.what = purpose::keepalive});
  if (code == errorcode_t::done) on.keepalive_ticks = now_;
  if (code == errorcode_t::retry_nomem && on.refused() != 0)
    return "the card refuses to send on this connection";
  return nullptr;
}

// The card should have said that the peer does not answer. A card that does not even send while its
// port is down may never say it: soft-RoCE, when what it has sent is held up below it
// (docs/virtual-machines.md).
bool event_queue::is_beyond_hope(const connection& on) noexcept {
  if (on.keepalive_ticks != 0 && cards_.is_beyond_hope(0, on.keepalive_ticks, now_)) return true;
  return rails() != nullptr && rails()->is_beyond_hope(on.rank, now_);
}

// Of a peer on this machine we see that it has ended, also one that was never met; of one that is
// called others may know it. What it sent before is in the queue by then, so the queue is emptied
// first.
bool event_queue::has_died(connection& on) noexcept {
  if (on.is_missed) return is_dry_;
  on.is_missed = calls_.has_died(on.rank) || (on.state() == stage::calling && on.is_known_failed());
  return false;
}

// All that was posted goes out before the queue pairs go.
bool event_queue::say_disconnect(connection& on, bool) noexcept {
  work last(IBV_WR_SEND);
  // The news of what goes in pieces come before it.
  return !on.has_splits() && on.post(last.wr, {.what = purpose::disconnect}) == errorcode_t::done;
}

}  // namespace lci::ibv
