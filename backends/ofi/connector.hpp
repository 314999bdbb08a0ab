// Hellos over libfabric: messages over one endpoint of the fabric, whose name every rank knows from
// the start, and the sockets by which the end of a process is noticed. Owned by fabric; called from
// polls. Threads: as connected::connector says; is_watched() shared. Always true: a connection is
// ready once each side knows the endpoint of the other.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "backends/ofi/device_queues.hpp"
#include "backends/ofi/lifeline.hpp"
#include "backends/ofi/queues.hpp"
#include "backends/ofi/region.hpp"
#include "lci/mem/arena.hpp"
#include "lci/net/connected/connector.hpp"

namespace lci::ofi {

// What is known of a rank.
struct contact {
  bool is_known = false;
  bool was_heard = false;
  fabric_address address;
  fi_addr_t at = FI_ADDR_UNSPEC;  // from the endpoint of hellos
  std::atomic<bool> is_watched{false};
  const char* missed = nullptr;  // why no connection will be of use; null: one may be
};

class connector final : public net::connected::connector<connector, device_queues, hello, contact> {
 public:
  static constexpr char NAME[] = "ofi";

  connector(const opened_domain& domain, net::address_book& book, mem::arena& arena);
  ~connector();

  std::string address() const { return here_.text(); }
  std::string why_out_of_reach(std::string_view address) const;
  // The endpoint that peers' keys are bound to, where the provider binds them.
  fid_ep* endpoint() const noexcept { return queues_.ep.get(); }
  // Takes hellos from now on. Throws backend_error.
  void start(regions& memory);
  // As the base's. A rank that has failed before fails there as well.
  void add_queues(device_queues& q);
  // Whether the end of that rank's process would be noticed.
  bool is_watched(int rank) const noexcept {
    return peers_[static_cast<std::size_t>(rank)].is_watched.load(std::memory_order_relaxed);
  }

 private:
  friend net::connected::connector<connector, device_queues, hello, contact>;
  static constexpr std::uint32_t RECEIVES = 64;
  static constexpr std::uint32_t SENDS = 32;
  // Of these, the first so many are not for calls to ranks that have sent nothing yet: providers
  // may keep a hello until its rank makes progress.
  static constexpr std::uint32_t NOT_FOR_CALLS = 8;
  static constexpr std::size_t CELL_BYTES = 128;
  static_assert(CELL_BYTES >= sizeof(hello));
  struct cell : ticket {
    cell() noexcept : ticket(kind::cell) {}
    std::byte* at = nullptr;
    int to = -1;  // a rank; -1: it receives
    int device = 0;
    std::uint8_t flags = 0;
    bool is_free = true;
  };
  std::uint64_t id() const noexcept { return here_.id; }
  contact* find(int rank);
  void read_hellos();
  bool read_some();
  void read_error();
  bool done_with(cell& one, std::size_t size, hello& said);
  void hear_early(const hello& said) noexcept;
  contact* sender_of(const hello& said);
  bool take_up(connection& on, device_queues& q, const hello& said, const contact& who);
  static bool is_about(const connection& on, const hello& said) noexcept {
    return on.name.size == 0 || on.name == said.name;
  }
  static bool knows_us(const connection&, const hello& said) noexcept {
    return (said.flags & hello::KNOWS_YOU) != 0;
  }
  bool say(const connection& on, const device_queues& q, std::uint8_t flags) {
    const int known = on.name.size != 0 ? hello::KNOWS_YOU : 0;
    return send_hello(on.rank, q, static_cast<std::uint8_t>(flags | known));
  }
  void refuse(int rank, const device_queues& q) {
    send_hello(rank, q, net::connected::hello_flags::LEAVES);
  }
  bool send_hello(int rank, const device_queues& q, std::uint8_t flags);
  cell* cell_for(std::uint8_t flags) noexcept;
  bool is_on_its_way(int rank, const device_queues& q, std::uint8_t flags) const noexcept;
  void disconnect_called();
  void post_receive(cell& one);
  void repost();
  void before_look() noexcept;
  void hear_news(int rank, lifeline::news what) noexcept;
  void judge(int rank) noexcept;
  bool was_heard_lately(int rank) const noexcept;
  void miss(int rank, const char* why) noexcept;

  const opened_domain& domain_;
  fabric_address here_;
  std::unique_ptr<lifeline> lifeline_;  // ends after the endpoint: what was sent comes first
  const mem::arena_block block_;
  queues queues_;
  regions* memory_ = nullptr;
  std::vector<contact> peers_;  // by rank
  std::vector<cell> cells_;     // RECEIVES, then SENDS

  // ---- under mutex_ ----
  std::vector<cell*> unposted_;
  std::uint64_t next_lifeline_look_ = 0;
  std::vector<int> suspects_;  // ranks whose hosts do not answer, as the last look has shown
};

}  // namespace lci::ofi
