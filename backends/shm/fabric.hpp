// The fabric: who the peers are, how to reach them, and when they end. Owns the sockets, the
// mappings of peers' arenas and the ports (one per device index), which outlive the device objects
// so that messages in lanes do too. Callers: runtime through net::fabric; ports for contact and
// news of peers. A peer ends by its sockets, which close before its process is over, or by its
// process, since a child of it may keep them open. Threads: as net::fabric says; contact(), look()
// and the news share one lock, which no message path takes. Always true: a peer moves none ->
// greeted -> mapped, and gone once; each move is announced to all ports; for want of memory none of
// this is lost, it comes later.
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
#include "backends/shm/peers.hpp"
#include "lci/base/unshared.hpp"
#include "lci/net/backend.hpp"

namespace lci::shm {

class port;

class fabric final : public net::fabric, public peers {
 public:
  explicit fabric(const net::fabric_config& config);  // throws backend_error
  ~fabric() override;

  const net::capabilities& caps() const noexcept override { return caps_; }
  std::string_view name() const noexcept override { return "shm"; }
  std::string address() const override { return here_.text(); }
  using net::fabric::make_device;
  std::unique_ptr<net::device> make_device(int index, net::device_config& config) override;
  void connect(int rank) noexcept override;
  net::remote_view check_remote(int rank, net::remote_key key) noexcept override {
    return look_up(rank, key);
  }
  std::byte* reach(int rank, std::uint64_t place, std::size_t size) noexcept override;
  int process_of(int rank) noexcept override;
  std::uint64_t register_region(void* address, std::size_t size, mem::mem_kind kind,
                                std::string& why_not) override;
  void deregister_region(std::uint64_t local_key) noexcept override;
  bool hear_callers() noexcept override;
  void leave() noexcept override;

  // ---- for ports, as peers says ----
  errorcode_t make_lane(int rank, outbox& box, std::uint32_t lane, tx_lane*& out) noexcept override;
  void look() noexcept override;
  void fail(peer& who, std::string_view why) noexcept override;
  bool news(std::size_t mapped_seen, std::size_t gone_seen, std::vector<peer*>& mapped,
            std::vector<peer*>& gone) override;
  outbox::mark mark(int rank, outbox& box) noexcept override;

  // Looks at the sockets and processes if the last look is that old.
  static constexpr std::uint64_t LOOK_EVERY_MS = 1;
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
    fd_handle socket;
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
  void gone_locked(peer& who, bool orderly, std::string_view why) noexcept;
  void watch(int fd, std::uint32_t events) const;
  void watch_process_locked(peer& who, pid_t pid) noexcept;
  void look_at_process_locked(int fd) noexcept;
  void announce_here() noexcept;
  peer& peer_locked(int rank);

  // Calls that one look takes in: who calls without end does not hold up a poll.
  static constexpr int MAX_ACCEPTS = 32;
  // Of each kind of trouble so many are said.
  static constexpr std::uint64_t MOST_WARNINGS = 10;

  net::capabilities caps_;
  shm::address here_;
  fd_handle epoll_, listener_;
  base::unshared is_ours_;         // listener_
  std::uint64_t probe_value_ = 0;  // what a peer must read at this address to know that it may
  std::vector<std::atomic<port*>> ports_;  // by device index
  std::atomic<std::uint64_t> next_look_ticks_{0};
  std::array<std::atomic<std::uint64_t>, 4> troubles_{};  // by kind; changed under mutex_
  std::atomic<std::uint64_t> looks_{0};                   // changed under mutex_

  std::mutex mutex_;  // guards everything below
  std::vector<std::unique_ptr<peer>> peer_store_;
  std::vector<std::unique_ptr<port>> port_store_;
  link_map links_;  // by descriptor
  struct process {
    fd_handle end;
    peer* who = nullptr;
  };
  std::unordered_map<int, process> processes_;  // by descriptor; of peers that are not gone
  std::vector<peer*> mapped_, gone_;            // have room for all ranks
  bool left_ = false;
};

}  // namespace lci::shm
