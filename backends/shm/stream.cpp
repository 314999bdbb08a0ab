#include "backends/shm/stream.hpp"

#include <algorithm>
#include <cstring>
#include <new>

#include "backends/shm/fabric.hpp"
#include "backends/shm/single_copy.hpp"
#include "lci/errors.hpp"
#include "lci/mem/packet_pool.hpp"

namespace lci::shm {

namespace {

constexpr const char* GONE = "the peer is gone";

// edge packet.return: partner is the release store of the peer, after it read the payload.
bool is_returned(const mem::packet& p) noexcept {
  return p.state.load(std::memory_order_acquire) == mem::packet_state::returned;
}

void take_home(mem::packet* p) noexcept {
  p->state.store(mem::packet_state::out, std::memory_order_relaxed);
  p->pool->put(p);
}

}  // namespace

errorcode_t pump::post(kind what, const net::net_op& op, bool at_once) noexcept {
  try {
    stream s;
    s.what = what;
    s.at_once = at_once;
    s.has_fence = op.fence;
    s.rank = op.rank;
    s.imm = op.imm;
    s.buffer = static_cast<std::byte*>(op.buffer);
    s.size = op.size;
    s.there = {op.remote.slot, op.remote.generation, op.remote_offset};
    s.context = op.context;
    if (op.fence) s.before = fabric_.mark(op.rank, out_);
    const std::lock_guard lock(lock_);
    submitted_.push_back(s);
    busy_.store(true, std::memory_order_relaxed);
    posted_.fetch_add(1, std::memory_order_relaxed);
  } catch (const std::bad_alloc&) {
    return errorcode_t::retry_nomem;
  }
  // The usual caller polls this device itself: then the first pieces leave now. Others do not take
  // the polling away from its owner for this.
  if (polling_.owner() == base::thread_id()) {
    if (const base::owned_guard in(polling_); in) advance_all();
  }
  return errorcode_t::posted;
}

errorcode_t pump::fail_later(int rank, void* context, const char* reason) noexcept {
  try {
    finish(rank, context, reason);
  } catch (const std::bad_alloc&) {
    return errorcode_t::retry_nomem;
  }
  posted_.fetch_add(1, std::memory_order_relaxed);
  return errorcode_t::posted;
}

bool pump::watch(int rank, mem::packet* p) noexcept {
  try {
    const std::lock_guard lock(lock_);
    watched_.push_back({rank, p});
    busy_.store(true, std::memory_order_relaxed);
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

void pump::finish(int rank, void* context, const char* why) {
  const std::lock_guard lock(lock_);
  finished_.push_back({rank, context, why});
  busy_.store(true, std::memory_order_relaxed);
}

std::size_t pump::poll(net::sink& to) noexcept {
  sweep();
  advance_all();
  const std::size_t n = deliver(to);
  const std::lock_guard lock(lock_);
  busy_.store(!submitted_.empty() || !finished_.empty() || !watched_.empty() || !flows_.empty(),
              std::memory_order_relaxed);
  return n;
}

void pump::sweep() noexcept {
  for (;;) {
    mem::packet* home = nullptr;
    {
      const std::lock_guard lock(lock_);
      const auto found = std::find_if(watched_.begin(), watched_.end(), [this](const watched& w) {
        return is_returned(*w.packet) || is_dropped(w.rank);
      });
      if (found == watched_.end()) return;
      home = found->packet;
      *found = watched_.back();
      watched_.pop_back();
    }
    take_home(home);
  }
}

std::size_t pump::deliver(net::sink& to) noexcept {
  for (std::size_t n = 0;; ++n) {
    finished f;
    {
      const std::lock_guard lock(lock_);
      if (finished_.empty()) return n;
      f = finished_.front();
      finished_.pop_front();
    }
    if (f.why != nullptr) {
      to.on_error(f.rank, f.context, f.why);
    } else if (f.context != nullptr) {
      to.on_complete(f.context);
    }
    // edge pump.drained: partner is is_drained().
    posted_.fetch_sub(1, std::memory_order_release);
  }
}

void pump::take_submitted() {
  std::vector<stream> fresh;
  {
    const std::lock_guard lock(lock_);
    fresh.swap(submitted_);
  }
  for (stream& s : fresh) {
    peer& who = *fabric_.find(s.rank);
    if (is_dropped(who.rank)) {
      // It was posted while the news of the peer's end was on its way.
      finish(s.rank, s.context, GONE);
    } else {
      flow_to(who).streams.push_back(s);
    }
  }
}

bool pump::is_dropped(int rank) const noexcept {
  return std::find(dropped_.begin(), dropped_.end(), rank) != dropped_.end();
}

pump::flow& pump::flow_to(peer& who) {
  for (const auto& f : flows_) {
    if (f->who == &who) return *f;
  }
  flows_.push_back(std::make_unique<flow>());
  flows_.back()->who = &who;
  return *flows_.back();
}

void pump::advance_all() {
  take_submitted();
  for (std::size_t i = 0; i < flows_.size();) {
    if (advance(*flows_[i])) {
      ++i;
    } else {
      flows_.erase(flows_.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }
}

bool pump::advance(flow& f) {
  retire(f);
  while (f.next < f.streams.size() && issue(f, f.streams[f.next])) ++f.next;
  while (f.next > 0) {
    const stream& s = f.streams.front();
    // What has failed still waits for its pieces: the buffer is not free before.
    if (s.retired < s.issued) break;
    end(s);
    f.streams.pop_front();
    --f.next;
  }
  return !f.streams.empty() || !f.in_flight.empty();
}

void pump::retire(flow& f) {
  while (!f.in_flight.empty() && is_returned(*f.in_flight.front().packet)) {
    const piece p = f.in_flight.front();
    f.in_flight.pop_front();
    f.bytes -= p.size;
    p.of->retired += p.size;
    if (p.packet->length == CHUNK_REFUSED && p.of->why == nullptr) {
      p.of->why = "the target's registration ended, or does not cover the range";
    }
    take_home(p.packet);
  }
}

bool pump::issue(flow& f, stream& s) {
  if (!s.has_started) {
    if (s.has_fence && (!f.in_flight.empty() || !out_.is_past(s.rank, s.before))) return false;
    s.has_started = true;
  }
  if (s.why != nullptr) return !s.is_reply || issue_failure(f, s);
  if (s.at_once) return copy_at_once(f, s);
  if (s.what == kind::get && !s.is_reply) return issue_get(f, s);
  return issue_pieces(f, s);
}

const std::byte* pump::source_of(const stream& s, std::size_t size) const noexcept {
  if (!s.is_reply) return s.buffer + s.issued;
  return static_cast<const std::byte*>(fabric_.config().regions->find(
      {s.source.region_slot, s.source.region_generation}, s.source.offset + s.issued, size));
}

bool pump::issue_pieces(flow& f, stream& s) {
  do {
    const std::size_t size = std::min(PIECE, s.size - s.issued);
    if (f.bytes + size > WINDOW) return false;
    tx_lane* lane = nullptr;
    if (out_.acquire_poller(s.rank, lane) != errorcode_t::done) return false;
    const std::byte* from = source_of(s, size);
    if (from == nullptr) {
      s.why = "the registration ended while a get was reading it";
      return issue_failure(f, s);
    }
    mem::packet* p = fabric_.chunks().get();
    if (p == nullptr) return false;
    std::memcpy(p->payload(), from, size);
    p->length = static_cast<std::uint32_t>(size);
    p->state.store(mem::packet_state::lent, std::memory_order_relaxed);
    f.in_flight.push_back({p, size, &s});
    f.bytes += size;
    const bool is_last = s.issued + size == s.size;
    chunk_record r;
    r.where = {s.there.region_slot, s.there.region_generation, s.there.offset + s.issued};
    r.packet = fabric_.arena().offset_of(p);
    r.size = static_cast<std::uint32_t>(size);
    std::memcpy(lane->next().data, &r, sizeof(r));
    slot_header h{0, sizeof(r), slot_kind::put_packet, 0};
    if (is_last && s.is_reply) h.flags = GET_DONE;
    if (is_last && s.what == kind::put_imm) {
      h.flags = HAS_IMM;
      h.imm = s.imm;
    }
    lane->publish(h);
    s.issued += size;
  } while (s.issued < s.size);
  return true;
}

bool pump::issue_get(flow&, stream& s) {
  tx_lane* lane = nullptr;
  if (out_.acquire_poller(s.rank, lane) != errorcode_t::done) return false;
  mem::region_name to;
  try {
    // The peer will write to us, so the destination is a region for the time being.
    to = fabric_.config().regions->insert(s.buffer, s.size);
  } catch (const argument_error&) {
    return false;  // the table is full: some registration will end
  }
  s.source = {to.slot, to.generation, 0};
  {
    const std::lock_guard lock(lock_);
    gets_[to.slot] = {to.generation, s.rank, s.context};
  }
  const get_record r{s.there, s.size, to.slot, to.generation};
  std::memcpy(lane->next().data, &r, sizeof(r));
  lane->publish({0, sizeof(r), slot_kind::get_request, 0});
  return true;
}

bool pump::issue_failure(flow&, stream& s) {
  tx_lane* lane = nullptr;
  if (out_.acquire_poller(s.rank, lane) != errorcode_t::done) return false;
  const get_failure r{s.there.region_slot, s.there.region_generation};
  std::memcpy(lane->next().data, &r, sizeof(r));
  lane->publish({0, sizeof(r), slot_kind::get_failed, 0});
  return true;
}

bool pump::copy_at_once(flow& f, stream& s) {
  // The immediate needs a place before the data moves, so that nothing has to be done twice.
  tx_lane* lane = nullptr;
  if (s.what == kind::put_imm && out_.acquire_poller(s.rank, lane) != errorcode_t::done) {
    return false;
  }
  const copied c = copy_whole(*f.who, s.what == kind::get, s.there, s.buffer, s.size);
  if (c == copied::refused && fabric_.config().shm_pipelined_copy) {
    s.at_once = false;
    return issue(f, s);
  }
  s.why = reason_of(c);
  if (s.why == nullptr && lane != nullptr) lane->publish({s.imm, 0, slot_kind::immediate, 0});
  return true;
}

void pump::end(const stream& s) noexcept {
  if (s.is_reply) {
    --replies_;
  } else if (s.what != kind::get || s.source.region_slot == 0) {
    finish(s.rank, s.context, s.why);
  }
  // A get that was sent as a request ends in finish_get().
}

bool pump::start_reply(peer& who, const get_record& asked) noexcept {
  if (replies_ >= MAX_REPLIES) return false;
  stream s;
  s.is_reply = true;
  s.rank = who.rank;
  s.source = asked.from;
  s.there = {asked.to_slot, asked.to_generation, 0};
  s.size = asked.size;
  const mem::region_table* regions = fabric_.config().regions;
  if (regions == nullptr || asked.size == 0 ||
      regions->find({asked.from.region_slot, asked.from.region_generation}, asked.from.offset,
                    asked.size) == nullptr) {
    s.why = "no such registration";
  }
  try {
    flow_to(who).streams.push_back(s);
  } catch (const std::bad_alloc&) {
    return false;
  }
  ++replies_;
  busy_.store(true, std::memory_order_relaxed);
  return true;
}

void pump::finish_get(int rank, mem::region_name name, const char* why) noexcept {
  void* context = nullptr;
  {
    const std::lock_guard lock(lock_);
    const auto found = gets_.find(name.slot);
    // Late, repeated or forged: there is no such get.
    if (found == gets_.end() || found->second.generation != name.generation ||
        found->second.rank != rank) {
      return;
    }
    context = found->second.context;
    gets_.erase(found);
  }
  fabric_.config().regions->erase(name);
  finish(rank, context, why);
}

void pump::drop_peer(peer& who, net::sink& to) noexcept {
  take_submitted();
  dropped_.push_back(who.rank);
  const bool dead = !who.failed.load(std::memory_order_relaxed);
  std::vector<mem::packet*> home;
  std::erase_if(flows_, [&](const std::unique_ptr<flow>& f) {
    if (f->who != &who) return false;
    retire(*f);  // what it took before it went
    for (const piece& p : f->in_flight) home.push_back(p.packet);
    for (std::size_t i = 0; i < f->streams.size(); ++i) {
      stream& s = f->streams[i];
      const bool is_taken = i < f->next && s.retired == s.issued;
      if (s.why == nullptr && !is_taken) s.why = GONE;
      end(s);
    }
    return true;
  });
  if (dead) out_.recall(who.rank);
  std::vector<mem::region_name> gets;
  {
    const std::lock_guard lock(lock_);
    for (const auto& [slot, g] : gets_) {
      if (g.rank == who.rank) gets.push_back({slot, g.generation});
    }
    std::erase_if(watched_, [&](const watched& w) {
      if (w.rank == who.rank) home.push_back(w.packet);
      return w.rank == who.rank;
    });
  }
  for (const mem::region_name name : gets) finish_get(who.rank, name, GONE);
  // A peer that lives but broke the rules may still write to packets it was given: these are lost.
  if (dead) {
    for (mem::packet* p : home) take_home(p);
  }
  deliver(to);
}

}  // namespace lci::shm
