// The half of a port that polls: what the card reports becomes calls of the sink.
#include <arpa/inet.h>

#include <algorithm>

#include "backends/ibv/errors.hpp"
#include "backends/ibv/fabric.hpp"
#include "backends/ibv/port.hpp"
#include "lci/base/log.hpp"

namespace lci::ibv {
namespace {

// Polls between two looks at what is not about messages.
constexpr std::uint32_t LOOK_EVERY = 64;
constexpr std::uint64_t KNOCK_LOOK_MS = 200;  // between two looks at who is silent
constexpr std::uint64_t SILENCE_MS = 1000;    // after which we ask whether a peer is alive
constexpr std::uint32_t REFILL_AT = 16;       // receives posted together

thread_local constinit char this_thread_mark = 0;

}  // namespace

// One thread at a time, which may come in again from a sink.
class port::inside {
 public:
  explicit inside(port& p) noexcept : port_(p) {
    const void* const me = &this_thread_mark;
    if (port_.poller_.load(std::memory_order_relaxed) == me) {
      is_in_ = true;
    } else if (!port_.is_polled_.load(std::memory_order_relaxed) &&
               !port_.is_polled_.exchange(true, std::memory_order_acquire)) {
      port_.poller_.store(me, std::memory_order_relaxed);
      is_in_ = true;
    }
    if (is_in_) ++port_.nesting_;
  }
  ~inside() {
    if (!is_in_ || --port_.nesting_ != 0) return;
    port_.poller_.store(nullptr, std::memory_order_relaxed);
    // edge ibv.poll: partner is the exchange above.
    port_.is_polled_.store(false, std::memory_order_release);
  }
  inside(const inside&) = delete;
  inside& operator=(const inside&) = delete;
  explicit operator bool() const noexcept { return is_in_; }

 private:
  port& port_;
  bool is_in_ = false;
};

std::size_t port::poll(net::sink& to, std::size_t max) noexcept {
  const inside guard(*this);
  if (!guard) return 0;
  if (++polls_ % LOOK_EVERY == 0 || fabric_.calls().has_work() || fabric_.keys().has_work())
      [[unlikely]]
    look_after(to);
  if (has_failures_.load(std::memory_order_acquire)) [[unlikely]]
    serve_failures(to);
  std::size_t n = 0;
  while (n < max) {
    if (count_ == 0 && !fetch()) break;
    if (!present(to)) break;
    ++n;
  }
  if (missing_ >= REFILL_AT) refill();
  if (!self_.is_empty()) [[unlikely]]
    n += self_.poll(to, max);
  return n;
}

// The next batch from the card. False: it has nothing.
bool port::fetch() noexcept {
  if (nesting_ > MOST_NESTED) [[unlikely]]
    return false;
  ibv_wc done[BATCH];
  const int n = ibv_poll_cq(cq_.get(), BATCH, done);
  if (n <= 0) {
    is_dry_ = true;
    return false;
  }
  first_ = nesting_ - 1;
  for (int i = 0; i < n; ++i) {
    const ibv_wc& one = done[i];
    // Of what failed the card fills in four fields: the opcode may be no opcode.
    ring_[first_ + i] = {one.wr_id,
                         one.status,
                         one.status == IBV_WC_SUCCESS ? one.opcode : IBV_WC_SEND,
                         one.byte_len,
                         ntohl(one.imm_data),
                         one.qp_num,
                         (one.wc_flags & IBV_WC_WITH_IMM) != 0};
  }
  count_ = n;
  return true;
}

// Presents the oldest event. False: it was deferred, and is the oldest still.
bool port::present(net::sink& to) noexcept {
  const event what = ring_[first_];
  // Taken out before the sink runs: a sink that polls again sees what comes after it.
  ++first_;
  --count_;
  link* const on = by_qpn(what.qpn);
  if (is_receive(what.id)) {
    if (on == nullptr || what.status != IBV_WC_SUCCESS) [[unlikely]] {
      give_back(packet_of(what.id));
      if (on != nullptr && what.status != IBV_WC_WR_FLUSH_ERR)
        fail(to, *on, meaning_of(what.status));
      return true;
    }
    if (receive(to, what, *on)) return true;
    // Before what a nested poll has fetched and left, or was refused: that came later.
    --first_;
    ++count_;
    ring_[first_] = what;
    return false;
  }
  if (on != nullptr) sent(to, what, *on);
  return true;
}

bool port::receive(net::sink& to, const event& what, link& from) noexcept {
  mem::packet* const packet = packet_of(what.id);
  from.heard_ticks = now_;
  // Who sends to us has heard our number: it may have said so in a hello that was lost.
  if (from.state() == link::stage::calling) [[unlikely]]
    from.move(link::stage::ready);
  if (what.opcode == IBV_WC_RECV_RDMA_WITH_IMM) {
    give_back(packet);
    to.on_immediate(from.rank, what.imm);
    return true;
  }
  if (!what.has_imm) [[unlikely]] {
    note said;
    if (what.bytes == 0)
      end(to, from, link::stage::left, "the peer took leave");
    else if (decode(packet->payload(), what.bytes, said))
      take_note(said, from);
    give_back(packet);
    return true;
  }
  switch (to.on_message({from.rank, what.imm, packet->payload(), what.bytes, packet})) {
    case net::verdict::deferred:
      return false;
    case net::verdict::taken:
      give_back(packet);
      break;
    case net::verdict::kept:
      ++missing_;
      break;
  }
  return true;
}

// The packet of a receive that was used up: the next refill() posts it again.
void port::give_back(mem::packet* packet) noexcept {
  ++missing_;
  if (spare_.size() < spare_.capacity())
    spare_.push_back(packet);
  else
    packet->pool->put(packet);
}

void port::refill() noexcept {
  ibv_recv_wr wr[REFILL_AT];
  ibv_sge part[REFILL_AT];
  while (missing_ != 0) {
    std::uint32_t n = 0;
    for (; n < std::min(missing_, REFILL_AT); ++n) {
      mem::packet* packet;
      if (!spare_.empty()) {
        packet = spare_.back();
        spare_.pop_back();
      } else if ((packet = packets_.get()) == nullptr) {
        break;  // the program holds them; senders wait
      }
      part[n] = {reinterpret_cast<std::uint64_t>(packet->payload()),
                 static_cast<std::uint32_t>(packets_.payload_size()), 0};
      if (!fabric_.memory().find_key(packet->payload(), packets_.payload_size(), 0, part[n].lkey)) {
        packets_.put(packet);
        break;
      }
      wr[n] = {id_of_receive(packet), nullptr, &part[n], 1};
      if (n != 0) wr[n - 1].next = &wr[n];
    }
    if (n == 0) return;
    ibv_recv_wr* bad = nullptr;
    if (ibv_post_srq_recv(srq_.get(), wr, &bad) != 0 && bad != nullptr) {
      // From `bad` on nothing was posted.
      const auto posted = static_cast<std::uint32_t>(bad - wr);
      for (std::uint32_t i = posted; i < n; ++i) packets_.put(packet_of(wr[i].wr_id));
      missing_ -= posted;
      return;
    }
    missing_ -= n;
  }
}

// A completion of a send queue says that everything posted before it is done, too.
void port::sent(net::sink& to, const event& what, link& on) noexcept {
  const std::uint64_t last = number_of(what.id);
  const bool is_good = what.status == IBV_WC_SUCCESS;
  on.heard_ticks = now_;
  if (!is_good) [[unlikely]]
    fail(to, on, meaning_of(what.status));
  send_record record;
  std::uint64_t number = 0;
  while (on.take_done(last, record, number)) {
    const bool is_failed = !is_good && number == last;
    finish(to, on, record, is_failed ? meaning_of(what.status).data() : nullptr);
  }
}

void port::finish(net::sink& to, link& on, const send_record& record, const char* error) noexcept {
  if (record.packet != nullptr) mem::release_packet(*fabric_.config().arena, record.packet);
  if (record.key != 0) fabric_.memory().remove(record.key);
  switch (record.what) {
    case purpose::knock:
      on.is_knocking = false;
      return;
    case purpose::farewell:
    case purpose::notice:
      return;
    case purpose::look_up:
      return fabric_.keys().on_read(*this, record.context, error == nullptr);
    case purpose::user:
      break;
  }
  if (record.context != nullptr) {
    if (error == nullptr)
      to.on_complete(record.context);
    else
      to.on_error(on.rank, record.context, error);
  }
  // Last: who sees the count at 0 may take all of this down.
  if (record.is_awaited) open_.fetch_sub(1, std::memory_order_release);
}

// The connection is of no use any more, because the peer has left or because it failed. What was
// posted and is not answered comes back flushed.
void port::end(net::sink& to, link& on, link::stage how, std::string_view reason) noexcept {
  on.move(how);
  if (on.was_gone_said) return;
  on.was_gone_said = true;
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_ERR;
  library().modify_qp(on.qp.get(), &attr, IBV_QP_STATE);
  fabric_.keys().forget(on.rank);
  to.on_peer_gone(on.rank, how == link::stage::left, reason);
}

void port::take_note(const note& what, const link& from) noexcept {
  const net::remote_key name{what.slot, what.generation};
  if (what.what == note::kind::withdrawn)
    fabric_.keys().drop(from.rank, name);
  else if (!fabric_.memory().add_reader(name, from.rank))
    tell(from.rank, {note::kind::withdrawn, name.slot, name.generation, 0});
}

// Notes that could not be sent when they were due.
void port::tell_rest() noexcept {
  std::deque<std::pair<int, note>> rest;
  {
    const std::lock_guard lock(failures_lock_);
    rest.swap(notes_);
  }
  for (const auto& [rank, what] : rest) tell(rank, what);
}

void port::serve_failures(net::sink& to) noexcept {
  tell_rest();
  for (;;) {
    failure one;
    {
      const std::lock_guard lock(failures_lock_);
      if (failures_.empty()) {
        has_failures_.store(!notes_.empty(), std::memory_order_relaxed);
        return;
      }
      one = failures_.front();
      failures_.pop_front();
    }
    to.on_error(one.rank, one.context, one.reason);
    open_.fetch_sub(1, std::memory_order_release);
  }
}

void port::look_after(net::sink& to) noexcept {
  now_ = base::cpu_ticks();
  fabric_.calls().look();
  if (fabric_.keys().has_work()) fabric_.keys().serve(*this);
  if (missing_ != 0) refill();
  if (now_ < next_knock_) return;
  next_knock_ = now_ + KNOCK_LOOK_MS * base::ticks_per_ms();
  if (fabric_.has_failed()) return fail_all(to, "the card failed");
  knock(to);
}

void port::fail_all(net::sink& to, std::string_view reason) noexcept {
  for (const std::atomic<link*>& one : links_) {
    link* const on = one.load(std::memory_order_acquire);
    if (on != nullptr && on->state() <= link::stage::ready) fail(to, *on, reason);
  }
}

// A queue pair says nothing of a peer to which nothing is sent. So whoever was silent for a while
// gets a write of no bytes, which its card acknowledges without its help, or nobody does.
void port::knock(net::sink& to) noexcept {
  for (const std::atomic<link*>& one : links_) {
    link* const on = one.load(std::memory_order_acquire);
    if (on == nullptr || on->state() > link::stage::ready) continue;
    if (has_died(*on)) {
      fail(to, *on, "its process is gone");
      continue;
    }
    if (on->state() == link::stage::calling) continue;
    if (on->heard_ticks == 0) on->heard_ticks = now_;
    const bool is_silent = now_ >= on->heard_ticks + SILENCE_MS * base::ticks_per_ms();
    // A card that refuses to send is asked at once.
    if (on->is_knocking || (!is_silent && on->refused() == 0)) continue;
    ibv_send_wr wr{};
    wr.opcode = IBV_WR_RDMA_WRITE;
    std::uint64_t address = 0;
    std::uint32_t key = 0;
    if (!fabric_.calls().directory_of(on->rank, address, key)) continue;
    wr.wr.rdma.remote_addr = address;
    wr.wr.rdma.rkey = key;
    on->forgive();
    const errorcode_t code = on->post(wr, {.what = purpose::knock});
    on->is_knocking = code == errorcode_t::done;
    if (code == errorcode_t::retry_nomem && on->refused() != 0)
      fail(to, *on, "the card refuses to send on this connection");
  }
  is_dry_ = false;
}

// Of a peer on this machine we see that it has ended, also one that was never met. What it sent
// before is in the queue by then, so the queue is emptied first.
bool port::has_died(link& on) noexcept {
  if (on.is_missed) return is_dry_;
  on.is_missed = fabric_.calls().has_died(on.rank);
  return false;
}

}  // namespace lci::ibv
