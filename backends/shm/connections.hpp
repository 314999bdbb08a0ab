// The connections of this process with the other ranks of its machine: who the peers are, how to
// reach them, and when they end. Owns the sockets, the mappings of peers' arenas, the packets for
// what is copied on its way, and the page on which peers announce lanes. Owned by the fabric.
// Callers: the fabric and the queues of each device. A peer ends by its sockets, which close before
// its process is over, or by its process, since a child of it may keep them open. Threads: shared;
// contact, look() and the news share one lock, which no message path takes. Always true: a peer
// moves none -> greeted -> mapped, and ends once; each move is announced to all devices; for want
// of memory none of this is lost, it comes later.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "backends/shm/connect.hpp"
#include "backends/shm/layout.hpp"
#include "backends/shm/outbox.hpp"
#include "backends/shm/peer.hpp"
#include "lci/base/unshared.hpp"
#include "lci/mem/packet_pool.hpp"
#include "lci/net/backend.hpp"
#include "lci/net/peer_table.hpp"

namespace lci::shm {

class connections {
 public:
  explicit connections(const net::fabric_config& config);  // throws backend_error
  // Without leave() before, peers take this for a death.
  ~connections();
  connections(const connections&) = delete;
  connections& operator=(const connections&) = delete;

  std::string address() const { return here_.text(); }
  // The lanes of the device of that index, which from now on are told of peers. Once for each.
  void add(int index, outbox& box) noexcept;
  // These four as net::fabric says.
  void connect(int rank) noexcept;
  bool hear_callers() noexcept;
  void leave() noexcept;
  net::remote_view check_remote(int rank, net::remote_key key) noexcept;
  // The peer if its arena is mapped here, else null.
  peer* mapped(int rank) const noexcept;

  const net::fabric_config& config() const noexcept { return config_; }
  mem::arena& arena() const noexcept { return *config_.arena; }
  int size() const noexcept { return static_cast<int>(peers_.size()); }
  control_page& control() const noexcept { return *control_; }
  // The note of a packet that `rank` has from us: of this fabric, since others may use the same
  // pools.
  std::uint64_t note_of_loan(int rank) const noexcept {
    return std::uint64_t{number_} << 32 | static_cast<std::uint32_t>(rank);
  }

  // The peer, or null before first contact.
  peer* find(int rank) const noexcept {
    // edge connections.peer: partner is the release store in meet_locked().
    return peers_[static_cast<std::size_t>(rank)].load(std::memory_order_acquire);
  }
  // Makes a lane of `box` to `rank` and lets the peer know. Greets the peer if need be. Answers
  // done, retry_* or fatal.
  errorcode_t make_lane(int rank, outbox& box, std::uint32_t lane, tx_lane*& out) noexcept;
  // Looks at the sockets and processes if the last look is LOOK_EVERY_MS old.
  static constexpr std::uint64_t LOOK_EVERY_MS = 1;
  void look() noexcept;
  // A peer broke the rules: it has ended, and nothing more is read from it; unless it had ended
  // before, then what it left in other lanes still is.
  void fail(peer& who, std::string_view why) noexcept;

  // News for device queues, each list only grows: peers in the order in which they were mapped, and
  // ended. False: the lock is held, ask again later. Throws std::bad_alloc.
  bool news(std::size_t mapped_seen, std::size_t ended_seen, std::vector<peer*>& mapped,
            std::vector<peer*>& ended);
  // How far the lanes of `box` to `rank` are written.
  outbox::mark mark(int rank, outbox& box) noexcept;
  // Packets for what is copied on its way: pieces of streams, messages from buffers that peers
  // cannot see.
  mem::packet_pool& chunks() noexcept { return chunks_; }
  std::uint64_t dropped() const noexcept { return dropped_.load(std::memory_order_relaxed); }
  // Counts a message that was dropped because it made no sense. Relaxed: statistics.
  void count_dropped() noexcept { dropped_.fetch_add(1, std::memory_order_relaxed); }
  // Callers that were refused: of another user, or with a hello that makes no sense. Relaxed,
  // likewise.
  std::uint64_t refused() const noexcept { return count_of(trouble::caller); }
  // How often it has looked. Relaxed, likewise.
  std::uint64_t looks() const noexcept { return looks_.load(std::memory_order_relaxed); }

 private:
  // What is said a few times and then only counted.
  enum class trouble : std::uint8_t { caller, contact, lane, look };
  __attribute__((format(printf, 3, 4))) void warn_locked(trouble of, const char* format,
                                                         ...) noexcept;
  std::uint64_t count_of(trouble what) const noexcept {
    return troubles_[static_cast<std::size_t>(what)].load(std::memory_order_relaxed);
  }
  struct link {
    base::descriptor socket;
    base::unshared is_ours;  // socket: its end is that of this process
    peer* who = nullptr;     // null until the hello of an accepted connection
    bool accepted = false;   // the other side called us
    bool greeted = false;    // our hello went out on it
    received said;           // size 0, or what there was no memory to act on: taken up again
  };
  using link_map = std::unordered_map<int, link>;
  errorcode_t meet_locked(int rank, peer*& out);
  errorcode_t greet_locked(peer& who);
  int send_hello_locked(link& on, peer& to, const fabric_id& to_id);
  bool look_locked() noexcept;
  bool look_at_all_locked() noexcept;
  bool accept_locked();
  link_map::node_type new_link_locked();
  link& add_locked(link_map::node_type&& node) noexcept;
  void read_locked(int fd) noexcept;
  bool take_record_locked(int fd, link& on) noexcept;
  void be_refused_locked(peer& who, std::string_view why) noexcept;
  void read_all_locked(const peer& who) noexcept;
  bool take_hello_locked(link& on, received& record);
  void map_locked(peer& who, const hello& said, link& on, received& record);
  void hang_up_locked(int fd, std::string_view why) noexcept;
  void end_locked(peer& who, ending how, std::string_view why) noexcept;
  void watch(int fd, std::uint32_t events) const;
  void watch_process_locked(peer& who, pid_t pid) noexcept;
  void look_at_process_locked(int fd) noexcept;
  void announce_here_locked() noexcept;
  void report(const peer& who, net::peer_event what) noexcept;
  peer& peer_locked(int rank);

  // Calls that one look takes in: a peer that calls without end does not hold up a poll.
  static constexpr int MAX_ACCEPTS = 32;
  // Of each kind of trouble so many are said.
  static constexpr std::uint64_t MOST_WARNINGS = 10;
  // Touched only as far as used.
  static constexpr std::size_t MAX_CHUNKS = 256;
  // Or else a few KiB in each of a row of packets would meet in few sets of the caches.
  static constexpr std::size_t CHUNK_SPARE = 16 * base::CACHE_LINE;

  net::fabric_config config_;
  const std::uint32_t number_;  // of all that this process has had
  mem::packet_pool chunks_;
  shm::address here_;
  base::descriptor epoll_, listener_;
  base::unshared is_ours_;  // listener_
  control_page* control_ = nullptr;
  std::uint64_t probe_value_ = 0;  // what a peer must read at this address to know that it may
  std::vector<std::atomic<peer*>> peers_;  // by rank
  std::atomic<std::uint64_t> next_look_ticks_{0};
  std::atomic<std::uint64_t> dropped_{0};
  std::array<std::atomic<std::uint64_t>, 4> troubles_{};  // by kind; changed under mutex_
  std::atomic<std::uint64_t> looks_{0};                   // changed under mutex_

  std::mutex mutex_;  // guards everything below
  std::vector<std::unique_ptr<peer>> peer_store_;
  std::vector<outbox*> boxes_;  // by device index; null: no device has had it
  link_map links_;              // by descriptor
  struct process {
    base::descriptor end;
    peer* who = nullptr;
  };
  std::unordered_map<int, process> processes_;  // by descriptor; of peers that have not ended
  std::vector<peer*> mapped_, ended_;           // have room for all ranks
  bool left_ = false;
};

// Here, because every put asks twice: the protocol, and the endpoint.
inline net::remote_view connections::check_remote(int rank, net::remote_key key) noexcept {
  net::remote_view out;
  if (rank < 0 || rank >= size()) return out;
  peer* who = find(rank);
  if (who == nullptr || who->state.load(std::memory_order_relaxed) == contact::none) {
    connect(rank);
    who = find(rank);
  }
  // edge peer.mapped: partner is the release store in map_locked().
  if (who == nullptr || who->state.load(std::memory_order_acquire) != contact::mapped) return out;
  out.what = net::remote_view::answer::unknown_key;
  if (who->rows == nullptr || key.slot == 0 || key.slot >= mem::region_table::MAX_REGIONS)
    return out;
  return net::view_of(mem::region_table::read_remote(who->rows, {key.slot, key.generation}));
}

}  // namespace lci::shm
