// How links come about: hellos over one endpoint of the fabric, whose name every rank knows from
// the start. Nobody is talked to before it is wished. Owned by fabric; called from polls and, for
// first contact, posts (which only leave a wish). Threads: look() shared, one inside at a time;
// is_watched() shared; the rest single. Always true: a link is ready once each side knows the
// endpoint of the other; every hello can come twice or late.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "backends/ofi/lifeline.hpp"
#include "backends/ofi/link.hpp"
#include "backends/ofi/queues.hpp"
#include "backends/ofi/region.hpp"
#include "lci/mem/arena.hpp"
#include "lci/net/connected/caller.hpp"

namespace lci::ofi {

class port;

class connector {
 public:
  connector(const opened_domain& domain, net::address_book& book, mem::arena& arena);
  ~connector();
  connector(const connector&) = delete;
  connector& operator=(const connector&) = delete;

  std::string address() const { return here_.text(); }
  std::string why_out_of_reach(std::string_view address) const;
  // The endpoint that peers' keys are bound to, where the provider binds them.
  fid_ep* endpoint() const noexcept { return queues_.ep.get(); }
  // Takes hellos from now on. Throws backend_error.
  void start(regions& memory);
  // Ports that can be called. They outlive the connector's last look().
  void add_port(port& p);
  // Takes leave of whoever was called and is not connected yet.
  void leave() noexcept;
  // Reads hellos and repeats ours. Another thread that is inside already will do.
  void look() noexcept;
  // A post found no link.
  void request() noexcept { caller_.request(); }
  bool has_work() const noexcept { return caller_.has_work(); }
  // Whether the end of that rank's process would be heard of.
  bool is_watched(int rank) const noexcept {
    return peers_[static_cast<std::size_t>(rank)].is_watched.load(std::memory_order_relaxed);
  }

 private:
  static constexpr std::uint32_t RECEIVES = 64;
  static constexpr std::uint32_t SENDS = 32;
  static constexpr std::size_t CELL_BYTES = 128;
  static_assert(CELL_BYTES >= sizeof(hello));
  struct cell : ticket {
    cell() noexcept : ticket(kind::cell) {}
    std::byte* at = nullptr;
    int to = -1;  // a rank; -1: it receives
    bool is_free = true;
  };
  // What is known of a rank.
  struct contact {
    bool is_known = false;
    bool was_heard = false;
    fabric_address address;
    fi_addr_t at = FI_ADDR_UNSPEC;  // from the endpoint of hellos
    std::atomic<bool> is_watched{false};
  };

  contact* find(int rank);
  void read_hellos();
  bool read_some();
  void read_error();
  bool done_with(cell& one, std::size_t size, hello& said);
  void hear_hello(const hello& said);
  void hear_early(const hello& said) noexcept;
  void take(const hello& said, port* p);
  void turn_away(link& on, const port& p) noexcept;
  void call(link& on, const port& p);
  bool say(const link& on, const port& p, std::uint8_t flags);
  void post_receive(cell& one);
  void repost();
  void hear_of_deaths() noexcept;
  void hear(int rank, lifeline::news what) noexcept;
  void judge(int rank) noexcept;
  bool was_heard_lately(int rank) const noexcept;
  void miss(int rank, const char* why) noexcept;

  const opened_domain& domain_;
  net::address_book& book_;
  mem::arena& arena_;
  fabric_address here_;
  std::unique_ptr<lifeline> lifeline_;  // ends after the endpoint: what was sent comes first
  const mem::arena_block block_;
  queues queues_;
  regions* memory_ = nullptr;
  std::vector<contact> peers_;  // by rank
  std::vector<cell> cells_;     // RECEIVES, then SENDS

  using calls = net::connected::caller<link, port>;
  calls caller_{"ofi"};  // under mutex_, but for what is shared
  std::mutex mutex_;     // guards everything below
  std::vector<cell*> unposted_;
  std::uint64_t next_lifeline_look_ = 0;
  std::vector<int> suspects_;  // ranks whose hosts do not answer, as the last look has shown
};

}  // namespace lci::ofi
