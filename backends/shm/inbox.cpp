#include "backends/shm/inbox.hpp"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <new>

#include "backends/shm/bulk_stream.hpp"
#include "backends/shm/connections.hpp"
#include "backends/shm/landing.hpp"
#include "backends/shm/packets_in.hpp"
#include "backends/shm/short_gets.hpp"
#include "backends/shm/side_inboxes.hpp"
#include "backends/shm/single_copy.hpp"
#include "lci/base/log.hpp"
#include "lci/base/platform.hpp"
#include "lci/base/undo.hpp"
#include "lci/mem/packet_pool.hpp"

namespace lci::shm {

constinit const slot detail::never_filled{};
constinit thread_local std::uint32_t detail::polls_tls = 0;

inbox::inbox(connections& peers, int index, bulk_stream& flow, short_gets& gets,
             side_inboxes& sides) noexcept
    : peers_(peers),
      flow_(flow),
      gets_(gets),
      sides_(sides),
      index_(static_cast<std::uint32_t>(index)),
      announce_(peers.control().announce[index_].count),
      // One behind: the first poll looks at what was there before this device.
      seen_(announce_.load(std::memory_order_relaxed) - 1) {}

LCI_COLD void inbox::stop(rx_lane& lane, std::uint64_t word, outcome why) noexcept {
  if (why == outcome::later) {
    // Its memory was given back, so nothing follows.
    if (word == 0) return lane.kill();
    // It may be long until the next poll that goes on: a fence of the sender waits for the others.
    lane.put_back();
    return lane.settle();
  }
  lane.kill();
  peers_.count_dropped();
  char text[64];
  std::snprintf(text, sizeof(text), "it sent an invalid record: kind %u, size %u",
                static_cast<unsigned>(word >> 48 & 0xff),
                static_cast<unsigned>(word >> 32 & 0xffff));
  peers_.fail(*lane.from, text);
}

inbox::outcome inbox::take(rx_lane& lane, const slot& s, slot_header header,
                           net::sink& to) noexcept {
  if (header.kind != slot_kind::packet) lane.wanted_times = 0;  // the others are for the poller
  switch (header.kind) {
    case slot_kind::packet:
      return take_packet(lane, s, header, to);
    case slot_kind::immediate:
      to.on_immediate(lane.rank, header.imm);
      return outcome::done;
    case slot_kind::put:
      return take_put(lane, s, header, to);
    case slot_kind::put_packet:
      return take_chunk(lane, s, header, to);
    case slot_kind::put_in_ring:
      return take_ring_put(lane, s, header, to);
    case slot_kind::get_request:
      return take_get(lane, s, header);
    case slot_kind::get_failed: {
      if (header.size != sizeof(get_failure)) return outcome::garbage;
      get_failure r;
      std::memcpy(&r, s.data, sizeof(r));
      if (short_gets::is_one(r.to_slot))
        gets_.take_refusal(lane.rank, r, to);
      else
        flow_.finish_get(lane.rank, {r.to_slot, r.to_generation}, reason_of(copied::unknown));
      return outcome::done;
    }
    case slot_kind::read_request:
      return take_read(lane, s, header, to);
    case slot_kind::none:
      // A sender that takes us for dead has given the lane's memory back, and zeros are messages in
      // every second lap. That the lane is over says nothing of the sender.
      if (header.pack() == 0) return outcome::later;
      break;
    case slot_kind::message:
      break;
  }
  return outcome::garbage;
}

inbox::outcome inbox::take_packet(rx_lane& lane, const slot& s, slot_header header,
                                  net::sink& to) noexcept {
  net::arrival a;
  mem::packet* packet = nullptr;
  if (!find_packet(lane, s, header, a, packet)) return outcome::garbage;
  const net::verdict v = to.on_message(a);
  if (v == net::verdict::deferred) return outcome::later;
  if (v == net::verdict::taken) hand_back(peers_.arena(), lane, header, *packet);
  return outcome::done;
}

void* inbox::target(const put_record& where, std::size_t size) const noexcept {
  const mem::region_table* regions = peers_.config().regions;
  if (regions == nullptr) return nullptr;
  return regions->find({where.region_slot, where.region_generation}, where.offset, size);
}

inbox::outcome inbox::take_put(rx_lane& lane, const slot& s, slot_header header,
                               net::sink& to) noexcept {
  put_record r;
  if (header.size < sizeof(r) || header.size > SLOT_DATA) return outcome::garbage;
  std::memcpy(&r, s.data, sizeof(r));
  const std::size_t size = header.size - sizeof(r);
  void* where = target(r, size);
  if (where == nullptr) {
    // A name that is not valid any more is no crime: the registration may have ended meanwhile.
    peers_.count_dropped();
    return outcome::done;
  }
  land(where, s.data + sizeof(r), size);
  if ((header.flags & HAS_IMM) != 0) to.on_immediate(lane.rank, header.imm);
  return outcome::done;
}

inbox::outcome inbox::take_chunk(rx_lane& lane, const slot& s, slot_header header,
                                 net::sink& to) noexcept {
  chunk_record r;
  if (header.size != sizeof(r)) return outcome::garbage;
  std::memcpy(&r, s.data, sizeof(r));
  std::byte* at =
      lane.from->memory.resolve(r.data, sizeof(mem::packet) + r.size, alignof(mem::packet));
  if (at == nullptr) return outcome::garbage;
  auto* packet = reinterpret_cast<mem::packet*>(at);
  if (short_gets::is_one(r.where.region_slot)) {
    gets_.take_reply(lane, r, *packet, to);
    return outcome::done;
  }
  void* where = target(r.where, r.size);
  if (where == nullptr) {
    peers_.count_dropped();
    packet->length = CHUNK_REFUSED;
  } else {
    land(where, packet->payload(), r.size);
  }
  // Not late, as those of messages: the operation of the sender may end with it.
  mem::return_borrowed(*packet);
  if (where == nullptr) return outcome::done;
  if ((header.flags & GET_DONE) != 0) {
    flow_.finish_get(lane.rank, {r.where.region_slot, r.where.region_generation}, nullptr);
  }
  if ((header.flags & HAS_IMM) != 0) to.on_immediate(lane.rank, header.imm);
  return outcome::done;
}

inbox::outcome inbox::take_ring_put(rx_lane& lane, const slot& s, slot_header header,
                                    net::sink& to) noexcept {
  chunk_record r;
  if (header.size != sizeof(r)) return outcome::garbage;
  std::memcpy(&r, s.data, sizeof(r));
  const std::byte* const data = lane.from->memory.resolve(r.data, r.size, 1);
  if (data == nullptr) return outcome::garbage;
  void* const where = target(r.where, r.size);
  if (where == nullptr) {
    peers_.count_dropped();  // as in take_put()
    return outcome::done;
  }
  land(where, data, r.size);
  lane.count_ring_put();
  if ((header.flags & HAS_IMM) != 0) to.on_immediate(lane.rank, header.imm);
  return outcome::done;
}

inbox::outcome inbox::take_get(rx_lane& lane, const slot& s, slot_header header) noexcept {
  get_record r;
  if (header.size != sizeof(r)) return outcome::garbage;
  std::memcpy(&r, s.data, sizeof(r));
  return flow_.start_reply(*lane.from, r) ? outcome::done : outcome::later;
}

// Addresses of the sender are arguments of the kernel only.
inbox::outcome inbox::take_read(rx_lane& lane, const slot& s, slot_header header,
                                net::sink& to) noexcept {
  read_record r;
  if (header.size != sizeof(r)) return outcome::garbage;
  std::memcpy(&r, s.data, sizeof(r));
  peer& from = *lane.from;
  std::byte* at = from.memory.resolve(r.packet, sizeof(mem::packet), alignof(mem::packet));
  if (at == nullptr || r.size > bulk_stream::MOST_SHARE) return outcome::garbage;
  auto* packet = reinterpret_cast<mem::packet*>(at);
  void* where = target(r.where, r.size);
  bool is_there = false;
  if (where == nullptr) {
    peers_.count_dropped();
    packet->length = CHUNK_REFUSED;
  } else if (!from.single_copy.load(std::memory_order_relaxed) ||
             single_copy_read(from.pid, where, r.source, r.size) != 0) {
    packet->length = CHUNK_NOT_READ;
  } else {
    // edge bulk_stream.forgotten: partner is forget(). After the bytes were read.
    is_there = std::atomic_ref(packet->length).load(std::memory_order_acquire) != CHUNK_FORGOTTEN;
  }
  mem::return_borrowed(*packet);
  if (is_there && (header.flags & HAS_IMM) != 0) to.on_immediate(lane.rank, header.imm);
  return outcome::done;
}

LCI_COLD void inbox::look_around() noexcept {
  // The clock costs more than an idle poll, so it is read every so many polls: at least four times
  // a millisecond, unless that were more often than every poll.
  const std::uint64_t now = base::cpu_ticks();
  const std::uint64_t quarter = base::ticks_per_ms() / 4;
  const std::uint64_t passed = now - last_look_ticks_;
  last_look_ticks_ = now;
  if (passed > quarter) {
    look_every_ = std::max(1u, look_every_ / 4);
  } else if (passed < quarter / 2) {
    look_every_ = std::min(MOST_POLLS_TO_LOOK, look_every_ * 2);
  }
  polls_to_look_ = static_cast<std::int32_t>(look_every_);
  peers_.look();
  // Not from inside a handler: the poll around it may be in the middle of a lane. But lanes are
  // taken back, since the handler may wait for what they bring.
  if (depth_ == 0) find_silent();
  if (sides_.are_any()) share(now);
}

// Other threads poll this device as well.
void inbox::share(std::uint64_t now) noexcept {
  is_shared_ = true;
  only_ = nullptr;
  sides_.look(active_, now, depth_ == 0 && closing_.empty() && !is_end_due_);
}

void inbox::find_silent() noexcept {
  const std::size_t before = silent_.size();
  std::erase_if(active_, [this](rx_lane* lane) {
    const bool is_quiet =
        lane->looked_at == lane->cursor && lane->is_settled() && !lane->is_dead && lane->is_empty();
    lane->looked_at = lane->cursor;
    lane->silent_looks = is_quiet ? static_cast<std::uint8_t>(lane->silent_looks + 1) : 0;
    if (lane->silent_looks < SILENT_AFTER) return false;
    lane->silent_looks = 0;
    silent_.add(*lane);
    return true;
  });
  if (silent_.size() != before) lists_changed();
}

// Lanes have been added to a list or removed. The room is there, see discover().
void inbox::lists_changed() noexcept {
  only_ = active_.size() == 1 && !is_shared_ ? active_[0] : nullptr;
  silent_.list();
  state_ = silent_.is_empty() ? state_ & ~SILENT : state_ | SILENT;
}

bool inbox::is_more_due() noexcept {
  if ((state_ & DUE) == 0 && silent_.find() == silent_.end()) return false;
  state_ |= DUE;
  return true;
}

// What polls have to do now and then.
LCI_COLD void inbox::prepare() noexcept {
  state_ &= ~DUE;
  if (polls_to_look_ <= 0) look_around();
  // edge lane.announce: partner of the additions in fabric.
  const std::uint32_t count = announce_.load(std::memory_order_acquire);
  if (count != seen_) take_news(count);
  if (presenting_ != nullptr) std::exchange(presenting_, nullptr)->hand_back_last();
  // What is found is presented by this very poll.
  if (const std::size_t group = silent_.find(); group != silent_.end()) wake(group);
}

// More lanes than one, or none. The lane that uses up the budget is the last of the next poll.
std::size_t inbox::drain_all(net::sink& to, std::size_t max) noexcept {
  std::size_t n = 0;
  for (std::size_t left = active_.size(), at = next_; left != 0 && n < max; --left) {
    // Polls inside this one may find more lanes, but lose none.
    if (at >= active_.size()) at = 0;
    rx_lane& lane = *active_[at++];
    const std::size_t got = drain(lane, to, max - n);
    n += got;
    if (got != 0 && is_shared_) lane.note_wanted(net::wanted_by::take());
    if (n >= max) next_ = at;
  }
  return n;
}

void inbox::join(side_inbox& own) noexcept { sides_.join(own, active_); }

void inbox::settle() noexcept {
  state_ &= ~UNSETTLED;
  for (rx_lane* const lane : active_) lane->settle();
}

LCI_COLD void inbox::settle_all() noexcept {
  for (const auto& lane : lanes_) lane->settle();
}

LCI_COLD void inbox::wake(std::size_t group) noexcept {
  silent_.wake(group, [this](rx_lane& lane) { active_.push_back(&lane); });
  lists_changed();
}

LCI_COLD void inbox::take_news(std::uint32_t count) noexcept {
  sides_.take_returned(active_);
  try {
    std::vector<peer*> mapped, ended;
    if (!peers_.news(known_.size(), ended_seen_, mapped, ended)) return;  // at the next poll
    for (peer* who : mapped) known_.push_back({who, 0});
    for (known& k : known_) discover(k);
    lists_changed();
    is_end_due_ = !ended.empty() && !sides_.recall(active_);
    if (is_end_due_) return;  // likewise
    closing_.insert(closing_.end(), ended.begin(), ended.end());
    ended_seen_ += ended.size();
    for (peer* who : ended) {
      if (!who->has_broken_rules()) continue;
      for (const auto& lane : lanes_) {
        if (lane->from == who) lane->kill();
      }
    }
    seen_ = count;
  } catch (const std::bad_alloc&) {
    // Asked again at the next poll, since seen_ stays.
  }
}

void inbox::discover(known& k) {
  if (k.who->has_broken_rules()) return;
  // edge lane.directory: partner is the release store in connections::make_lane().
  const std::uint64_t at = k.who->theirs->directory[index_].load(std::memory_order_acquire);
  if (at == 0) return;
  auto* directory = k.who->memory.resolve_as<lane_directory>(at);
  if (directory == nullptr) {
    peers_.count_dropped();
    return peers_.fail(*k.who, "its lane directory lies outside its memory file");
  }
  for (std::uint32_t i = 0; i < LANES; ++i) {
    // edge lane.offset: partner is the release store in connections::make_lane().
    const std::uint64_t offset = directory->lane[i].load(std::memory_order_acquire);
    if (offset == 0 || (k.lanes & 1u << i) != 0) continue;
    const auto first = static_cast<std::uint32_t>(offset % LANE_ALIGN);
    std::byte* slots = k.who->memory.resolve(offset - first, LANE_SIZE, LANE_ALIGN);
    if (slots == nullptr || first >= LANE_SLOTS) {
      peers_.count_dropped();
      return peers_.fail(*k.who, "a lane lies outside its memory file");
    }
    base::make_room(lanes_);
    active_.reserve(lanes_.capacity());
    silent_.reserve(lanes_.capacity());
    rx_lane& lane = *lanes_.emplace_back(std::make_unique<rx_lane>());
    lane.begin(reinterpret_cast<slot*>(slots), first_position(first), directory->consumed[i].value);
    lane.rank = k.who->rank;
    lane.from = k.who;
    lane.number = i;
    active_.push_back(&lane);
    k.lanes |= 1u << i;
  }
}

LCI_COLD std::size_t inbox::close_lanes(net::sink& to) noexcept {
  if (!sides_.recall(active_)) return 0;
  std::size_t n = 0;
  for (std::size_t i = 0; i < closing_.size();) {
    peer* who = closing_[i];
    const bool drained = std::none_of(lanes_.begin(), lanes_.end(), [who](const auto& lane) {
      return lane->from == who && !lane->is_dead && !lane->is_empty();
    });
    if (!drained) {
      ++i;
      continue;
    }
    closing_.erase(closing_.begin() + static_cast<std::ptrdiff_t>(i));
    std::erase_if(active_, [who](const rx_lane* lane) { return lane->from == who; });
    silent_.remove_if([who](const rx_lane* lane) { return lane->from == who; });
    lists_changed();
    // edge peer.end: partner of the release store in end_locked(), after the reason.
    const ending how = who->end.load(std::memory_order_acquire);
    std::erase_if(lanes_, [who, how](const auto& lane) {
      if (lane->from != who) return false;
      // It may live on. One that is lost takes its packets back if it lives, one that broke the
      // rules gets none.
      if (how == ending::left) lane->settle();
      return true;
    });
    flow_.deliver(to);  // what was over before its end has not failed
    to.on_peer_ended(who->rank, how == ending::left, who->reason);
    flow_.drop_peer(*who, to);
    gets_.drop_peer(who->rank, to);
    ++n;
  }
  return n;
}

}  // namespace lci::shm
