#include "backends/shm/connections.hpp"

#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/random.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>

#include "lci/base/log.hpp"
#include "lci/errors.hpp"

namespace lci::shm {
namespace {

std::uint64_t random_value() {
  std::uint64_t out = 0;
  if (getrandom(&out, sizeof(out), 0) != sizeof(out)) {
    throw backend_error(std::string("shm: getrandom of 8 bytes: ") + std::strerror(errno));
  }
  return out;
}

// Before any member is made.
const net::fabric_config& checked(const net::fabric_config& config) {
  if (config.book == nullptr || config.arena == nullptr) {
    throw backend_error("shm: a fabric needs an address book and an arena");
  }
  if (!config.shm_single_copy && !config.shm_pipelined_copy) {
    throw backend_error(
        "shm: shm_single_copy and shm_pipelined_copy are both off, so no large message could move; "
        "switch one of them on");
  }
  return config;
}

// Any value does that no packet's note has by chance.
std::uint32_t next_number() noexcept {
  static std::atomic<std::uint32_t> last{0x73686d31};
  return last.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace

connections::connections(const net::fabric_config& config)
    : config_(checked(config)),
      number_(next_number()),
      chunks_(*config.arena, sizeof(mem::packet) + CHUNK_MAX + CHUNK_SPARE, MAX_CHUNKS),
      here_(shm::address::make()),
      boxes_(MAX_DEVICES) {
  const auto ranks = static_cast<std::size_t>(config.book->size());
  peers_ = std::vector<std::atomic<peer*>>(ranks);
  peer_store_.reserve(ranks);
  mapped_.reserve(ranks);
  ended_.reserve(ranks);

  epoll_ = base::descriptor(epoll_create1(EPOLL_CLOEXEC));
  if (!epoll_) throw backend_error(std::string("shm: epoll_create1: ") + std::strerror(errno));
  listener_ = listen_at(here_.id);
  is_ours_.reset(listener_.get());
  watch(listener_.get(), EPOLLIN);
  control_ = new (arena().allocate(sizeof(control_page), alignof(control_page))) control_page;
  // Never touched, so it costs no memory.
  if (const std::size_t apart = page_color_of(config.book->rank()); apart != 0)
    arena().allocate(apart, LANE_ALIGN);
  probe_value_ = random_value();
  // Where Yama restricts who may read whose memory, siblings need to be allowed. Fails where there
  // is no Yama; the probe at contact tells what really works.
  if (config.shm_single_copy) prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
  base::ticks_per_ms();  // measured here rather than in the first poll
}

connections::~connections() {
  log::debug("shm", "closed, %zu peers connected, %llu messages dropped", mapped_.size(),
             static_cast<unsigned long long>(dropped()));
}

void connections::connect(int rank) noexcept {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  peer* ignored = nullptr;
  if (lock) meet_locked(rank, ignored);
}

// Peers write only after they have called, so nothing is on the way from a rank that we do not know
// once this was done.
bool connections::hear_callers() noexcept {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  // A hello for which there was no memory is still to be dealt with.
  return lock && look_at_all_locked() &&
         std::none_of(links_.begin(), links_.end(),
                      [](const auto& one) { return one.second.said.size != 0; });
}

bool connections::look_at_all_locked() noexcept {
  // Ranks of the job may be behind however many strangers: more than that the queue of callers does
  // not hold.
  constexpr int MOST_LOOKS = BACKLOG / MAX_ACCEPTS + 2;
  int looks = 0;
  while (looks < MOST_LOOKS && look_locked()) ++looks;
  return looks < MOST_LOOKS;
}

void connections::leave() noexcept {
  const std::lock_guard lock(mutex_);
  if (left_) return;
  left_ = true;
  look_at_all_locked();  // a peer that has called meanwhile is to be told as well
  const bye goodbye;
  for (auto& [fd, on] : links_) {
    // When both sides called at once there is another connection to one that was told on the first.
    if (on.who != nullptr && on.who->is_refused) continue;
    // A peer whose buffer is full of our records does not exist; one that has ended need not know.
    send_record(fd, std::as_bytes(std::span(&goodbye, 1)), -1);
  }
}

void connections::look() noexcept {
  const std::uint64_t now = base::cpu_ticks();
  // Relaxed: a hint; the lock decides.
  if (now < next_look_ticks_.load(std::memory_order_relaxed)) return;
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock) return;
  next_look_ticks_.store(now + LOOK_EVERY_MS * base::ticks_per_ms(), std::memory_order_relaxed);
  look_locked();
}

bool connections::news(std::size_t mapped_seen, std::size_t ended_seen, std::vector<peer*>& mapped,
                       std::vector<peer*>& ended) {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock) return false;
  mapped.insert(mapped.end(), mapped_.begin() + static_cast<std::ptrdiff_t>(mapped_seen),
                mapped_.end());
  ended.insert(ended.end(), ended_.begin() + static_cast<std::ptrdiff_t>(ended_seen), ended_.end());
  return true;
}

outbox::mark connections::mark(int rank, outbox& box) noexcept {
  const std::lock_guard lock(mutex_);
  return box.mark_locked(rank);
}

void connections::add(int index, outbox& box) noexcept {
  const std::lock_guard lock(mutex_);
  boxes_[static_cast<std::size_t>(index)] = &box;
}

void connections::announce_here_locked() noexcept {
  for (std::size_t i = 0; i < MAX_DEVICES; ++i) {
    if (boxes_[i] == nullptr) continue;
    // edge lane.announce: the lists before the count; partner is the acquire load in inbox::poll().
    control_->announce[i].count.fetch_add(1, std::memory_order_release);
  }
}

errorcode_t connections::make_lane(int rank, outbox& box, std::uint32_t lane,
                                   tx_lane*& out) noexcept {
  if (rank < 0 || rank >= size()) return errorcode_t::fatal;
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock) return errorcode_t::retry_lock;
  peer* who = nullptr;
  if (const errorcode_t rc = meet_locked(rank, who); rc != errorcode_t::done) return rc;
  try {
    tx_lane* entry = box.entry_locked(rank, lane);
    if (entry == nullptr) return errorcode_t::retry_nomem;
    if (!box.may_open_locked(rank, lane)) return errorcode_t::retry_nomem;
    const auto index = static_cast<std::size_t>(box.index());
    lane_directory* directory = nullptr;
    if (const auto at = who->ours->directory[index].load(std::memory_order_relaxed); at == 0) {
      directory = new (arena().allocate(sizeof(lane_directory))) lane_directory;
      // edge lane.directory: zeroed before its offset is known; partner in inbox::discover().
      who->ours->directory[index].store(arena().offset_of(directory), std::memory_order_release);
    } else {
      directory = std::launder(reinterpret_cast<lane_directory*>(arena().at(at)));
    }
    auto* slots = new (arena().allocate(LANE_SIZE, LANE_ALIGN)) slot[LANE_SLOTS];
    const std::uint32_t first = first_slot_of(config_.book->rank(), lane);
    prepare_slots(slots, first);
    consumed_count& consumed = directory->consumed[lane].value;
    consumed.store(first_position(first), std::memory_order_relaxed);
    // edge lane.offset: the same for a lane's slots.
    directory->lane[lane].store(arena().offset_of(slots) + first, std::memory_order_release);
    // Relaxed: a thread that writes to it gets it from here, or from the block's pointer.
    entry->begin(slots, first_position(first), consumed);
    box.opened_locked(rank, lane);
    out = entry;
    const contact met = who->state.load(std::memory_order_relaxed);
    // It may have looked through our lanes before this one was there, and its answer lies unread.
    // Once read, the lane is announced, so that the message gets there without another poll here.
    // The lock on the queue of answers orders: one that comes after this read was written by a peer
    // that still has to look.
    if (met == contact::greeted) read_all_locked(*who);
    if (met == contact::mapped) {
      // edge lane.announce: the offset before the count; partner is the acquire load in
      // inbox::poll().
      who->control->announce[index].count.fetch_add(1, std::memory_order_release);
    }
    return errorcode_t::done;
  } catch (const std::exception& e) {
    warn_locked(trouble::lane, "no lane to rank %d for now: %s", rank, e.what());
    return errorcode_t::retry_nomem;
  }
}

peer* connections::mapped(int rank) const noexcept {
  if (rank < 0 || rank >= size()) return nullptr;
  peer* const who = find(rank);
  // edge peer.mapped: partner is the release store in map_locked().
  const bool is_mapped =
      who != nullptr && who->state.load(std::memory_order_acquire) == contact::mapped;
  return is_mapped ? who : nullptr;
}

}  // namespace lci::shm
