// What becomes of operations when the peer ends, or the device. Threads: the one that is inside the
// device's `polling`; forget() and recall_late(): the only one that uses the device.
#include <memory>
#include <mutex>
#include <vector>

#include "backends/shm/bulk_stream.hpp"
#include "backends/shm/connections.hpp"

namespace lci::shm {

void bulk_stream::drop_peer(peer& who, net::sink& to) noexcept {
  take_submitted();
  dropped_[static_cast<std::size_t>(who.rank)] = true;
  // One that lives but broke the rules may still write to packets it was given: these are lost.
  const bool is_dead = !who.has_broken_rules();
  if (flow* const f = find_flow(who.rank); f != nullptr) drop_flow(*f, is_dead);
  if (is_dead) out_.recall(who.rank);
  drop_watched(who.rank, is_dead);
  deliver(to);
}

// It is idle then, and leaves the list of the active ones at the next poll.
void bulk_stream::drop_flow(flow& f, bool is_dead) noexcept {
  retire(f);  // what it took before it went
  for (const piece& p : f.in_flight)
    if (is_dead) take_home(p.packet);
  f.in_flight.clear();
  f.bytes = 0;
  while (stream* const s = f.issued.pop()) {
    if (s->why == nullptr && s->out != 0) s->why = PEER_ENDED;
    end(s);
  }
  while (stream* const s = f.waiting.pop()) {
    // The peer has read all of it, and told the immediate, before it went.
    const bool is_whole = s->has_imm_there && s->out == 0 && !s->is_to_repeat;
    if (s->why == nullptr && !is_whole) s->why = PEER_ENDED;
    end(s);
  }
  while (stream* const s = f.gets.pop()) finish_get(s, PEER_ENDED);
}

// Buffers may be in other use now. What fails before it starts is not copied, see issue(); what has
// been issued ends when its packets are back.
void bulk_stream::forget() noexcept {
  take_submitted();
  const auto forget_all = [](const stream_list& these, const char* why) {
    for (stream* s = these.front(); s != nullptr; s = s->next) {
      if (s->is_reply) continue;
      s->is_forgotten = true;
      if (why != nullptr) s->why = why;
    }
  };
  for (const std::unique_ptr<flow>& f : flows_) {
    if (f == nullptr) continue;
    forget_all(f->waiting, "its device has ended");
    forget_all(f->issued, nullptr);
    // edge bulk_stream.forgotten: before the buffer is used again. Partner is inbox::take_read().
    for (const piece& p : f->in_flight)
      if (p.of->has_imm_there)
        std::atomic_ref(p.packet->length).store(CHUNK_FORGOTTEN, std::memory_order_release);
    while (stream* const s = f->gets.pop()) finish_get(s, nullptr);
  }
  const std::lock_guard lock(lock_);
  forget_all(finished_, nullptr);
  posted_.store(0, std::memory_order_relaxed);
}

// Not again at each poll: a thread stands between its look at the lane and the loan for a moment
// only, so this is about a packet or none for each thread and peer.
void bulk_stream::recall_late() noexcept {
  for (int rank = 0; rank < static_cast<int>(dropped_.size()); ++rank)
    if (is_dropped(rank) && !peers_.find(rank)->has_broken_rules()) out_.recall(rank);
}

void bulk_stream::drop_watched(int rank, bool is_dead) noexcept {
  const std::lock_guard lock(lock_);
  std::erase_if(watched_, [&](const watched& w) {
    if (w.rank != rank) return false;
    if (is_dead) take_home(w.packet);
    return true;
  });
}

}  // namespace lci::shm
