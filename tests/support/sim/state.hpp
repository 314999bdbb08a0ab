// The inside of sim: what is under way between the ranks, and the fabric, device and endpoint that
// look at it.
//
// Used by the files of this folder only. Threads: every field of sim_state, sim_fabric and
// sim_device that is not marked otherwise is read and written under sim_state::mutex. Always true:
// a posted context sits in exactly one place {an inbox message, pending_, completions_} until a
// sink gets it; the mutex is not held while a sink runs.
#pragma once

#include <array>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "lci/mem/packet_pool.hpp"
#include "lci/mem/region_table.hpp"
#include "tests/support/sim/sim.hpp"

// Of failing_new, which only some tests link: what this network itself allocates does not fail.
extern "C" void lci_spare_from_failing_new(int change) noexcept __attribute__((weak));

namespace lci::test {

class spared {
 public:
  spared() noexcept {
    if (lci_spare_from_failing_new != nullptr) lci_spare_from_failing_new(1);
  }
  ~spared() {
    if (lci_spare_from_failing_new != nullptr) lci_spare_from_failing_new(-1);
  }
  spared(const spared&) = delete;
  spared& operator=(const spared&) = delete;
};

// Who holds it is spared.
class sim_mutex {
 public:
  void lock() {
    mutex_.lock();
    if (lci_spare_from_failing_new != nullptr) lci_spare_from_failing_new(1);
  }
  void unlock() {
    if (lci_spare_from_failing_new != nullptr) lci_spare_from_failing_new(-1);
    mutex_.unlock();
  }

 private:
  std::mutex mutex_;
};

class sim_fabric;
class sim_device;

// A send or a put with immediate on its way to a device.
struct sim_message {
  net::net_op
      op;  // rank is the sender's; buffer is `bytes`, the packet's payload, or the poster's buffer
  bool is_put = false;    // put_imm: the data goes to op.remote, the sink sees only the immediate
  bool deferred = false;  // it was offered before; nothing may get in front of it
  bool put_done = false;  // its data has been written already
  std::vector<std::byte> bytes;  // the message itself if it was copied
  sim_device* poster = nullptr;  // gets op.context when the message is through; null: nobody waits
  std::uint64_t not_before = 0;  // poll number of the receiver
};

// A put or get that answered posted and has not run yet.
struct sim_rma {
  net::net_op op;
  bool is_get = false;
};

struct sim_completion {
  void* context = nullptr;
  std::uint64_t local_key = 0;  // of the operation
  int rank = -1;
  const char* error = nullptr;  // null: completed
};

// Memory that a rank has registered.
struct sim_registration {
  int rank = -1;
  std::byte* address = nullptr;
  std::size_t size = 0;
  mem::mem_kind kind = mem::mem_kind::host;
  bool covers(const void* at, std::size_t bytes) const noexcept {
    const auto* const from = static_cast<const std::byte*>(at);
    return from >= address && bytes <= size && from <= address + (size - bytes);
  }
};

enum class sim_life : std::uint8_t { absent, alive, left, dead };

struct sim_state {
  explicit sim_state(int ranks, sim_options o)
      : options(o),
        rng(o.seed),
        fabrics(static_cast<std::size_t>(ranks)),
        life(fabrics.size(), sim_life::absent) {}

  // Under the mutex. True once in n draws; n = 0 never.
  bool draw(std::uint32_t n) { return n != 0 && rng() % n == 0; }
  sim_device* device_of(int rank, int index);
  void kill_locked(int rank);
  // Runs one put or get. Null, or what is wrong with it.
  const char* run_rma_locked(const net::net_op& op, bool is_get);
  // With needs_keys: ends the test if the local buffer of an operation of `rank` is not registered.
  void require_registered_locked(int rank, const net::net_op& op) const;
  // Whether something of `rank` that is under way uses that registration.
  bool is_in_use_locked(int rank, std::uint64_t local_key) const;
  // The bytes that an operation names at its target; null: it may not.
  void* find_remote_locked(const sim_fabric& target, const net::net_op& op) const;
  void* find_told_locked(const sim_fabric& target, const net::net_op& op) const;
  // The key under which peers find that row; nothing if they do not.
  std::optional<std::uint64_t> published_key(int rank, net::remote_key name) const;
  // Where the bytes of a buffer are that the network is to touch.
  void* local_bytes(const net::net_op& op) const;
  void* remote_bytes(const mem::region& region, void* address, const net::net_op& op) const;
  void* device_bytes(void* address, bool is_registered) const;

  sim_mutex mutex;
  sim_options options;
  sim_counters counters;
  std::mt19937_64 rng;
  std::vector<sim_fabric*> fabrics;                      // by rank; null while closed
  std::vector<sim_life> life;                            // by rank
  std::map<std::uint64_t, sim_registration> registered;  // by key
  std::uint64_t last_key = 0;
  // Keys by rank and name. Arenas have the keys ARENA_KEYS + rank.
  std::map<std::tuple<int, std::uint32_t, std::uint32_t>, std::uint64_t> published;
  static constexpr std::uint64_t ARENA_KEYS = std::uint64_t{1} << 32;
};

class sim_fabric final : public net::fabric, private mem::device_registrar {
 public:
  sim_fabric(std::shared_ptr<sim_state> world, int rank, const net::fabric_config& config);
  ~sim_fabric() override;
  const net::capabilities& caps() const noexcept override { return caps_; }
  std::string_view name() const noexcept override { return "sim"; }
  std::string address() const override { return "sim:" + std::to_string(rank_); }
  using net::fabric::make_device;
  std::unique_ptr<net::device> make_device(int index, net::device_config& config) override;
  void connect(int rank) noexcept override;
  using net::fabric::check_remote;
  net::remote_view check_remote(int rank, net::remote_key key, int device) noexcept override;
  std::uint64_t register_region(void* address, std::size_t size, mem::mem_kind kind,
                                std::string& why_not) override;
  void deregister_region(std::uint64_t local_key) noexcept override;
  void publish(net::remote_key name, std::uint64_t local_key) noexcept override;
  net::remote_target target_of(net::remote_key name) noexcept override;
  void leave() noexcept override;
  std::byte* reach(int rank, std::uint64_t place, std::size_t size) noexcept override;
  int process_of(int rank) noexcept override;

  bool connected_locked(int rank);
  bool is_in_arena(const void* address, std::size_t size) const noexcept;

  std::shared_ptr<sim_state> world_;
  const int rank_;
  const net::capabilities caps_;  // as they were at the start
  const net::fabric_config config_;
  std::unique_ptr<mem::packet_pool> receives_;  // sim_packets::own
  std::vector<sim_device*> devices_;            // by index; null where there is none
  std::vector<std::uint64_t> contact_;  // by rank: poll count of first contact + 1, 0 = never
  std::uint64_t polls_ = 0;             // of all devices

 private:
  mem::registration_answer register_range(const mem::descriptor_range& what) override;
  mem::registration_answer register_pointer(void* address, std::size_t size) override;
  mem::registration_answer answer(mem::rung which, void* address, std::size_t size);
  std::uint64_t register_host(void* address, std::size_t size);

  mem::registration_ladder ladder_;
  std::array<std::uint64_t, mem::RUNGS> attempts_{};  // by rung
  std::uint64_t host_attempts_ = 0;
};

class sim_device final : public net::device {
 public:
  sim_device(sim_fabric& fabric, int index);
  ~sim_device() override;
  std::unique_ptr<net::endpoint> make_endpoint() override;
  std::size_t poll(net::sink& to, std::size_t max) noexcept override;
  bool is_drained() const noexcept override;
  bool may_bring(int rank) const noexcept override;

  // Endpoint side. `message.op.rank` is the target on entry.
  errorcode_t post_message(sim_message&& message, bool wants_completion) noexcept;
  errorcode_t post_rma(const net::net_op& op, bool is_get) noexcept;

  void complete_locked(const net::net_op& op, int rank, const char* error);
  void run_pending_locked(int target, bool puts_only);
  void forget_poster_locked(sim_device* poster);
  std::size_t queued_from_locked(int rank) const;

  sim_fabric& fabric_;
  sim_state& world_;
  const int index_;
  std::deque<sim_message> inbox_;
  std::deque<sim_rma> pending_;
  std::deque<sim_completion> completions_;
  std::size_t in_inboxes_ = 0;       // contexts of this device in other devices' inboxes
  std::vector<bool> gone_reported_;  // by rank
  std::vector<std::uint32_t> busy_;  // by rank: messages of it that a sink holds right now
  std::vector<std::uint64_t> sent_;  // by rank: messages
  std::uint64_t polls_ = 0;
  std::recursive_mutex polling_;  // its owner is inside poll(); recursive, since sinks may poll

 private:
  enum class step : std::uint8_t { nothing, event, deferred };
  errorcode_t admit_locked(int rank);
  step one_event(net::sink& to) noexcept;
  bool give_completion(net::sink& to, std::unique_lock<sim_mutex>& lock) noexcept;
  step give_message(net::sink& to, std::unique_lock<sim_mutex>& lock) noexcept;
  void give_immediate(net::sink& to, sim_message& m, std::unique_lock<sim_mutex>& lock) noexcept;
  bool give_gone(net::sink& to, std::unique_lock<sim_mutex>& lock) noexcept;
  void insert_locked(sim_device& target, sim_message&& message);
};

class sim_endpoint final : public net::endpoint {
 public:
  explicit sim_endpoint(sim_device& device) : device_(device) {}
  errorcode_t send_inline(int rank, std::uint32_t imm, const void* head, std::size_t head_size,
                          const void* payload, std::size_t size) noexcept override;
  errorcode_t send(const net::net_op& op) noexcept override;
  errorcode_t put(const net::net_op& op) noexcept override;
  errorcode_t put_imm(const net::net_op& op) noexcept override;
  errorcode_t get(const net::net_op& op) noexcept override;
  std::uint64_t unconsumed(int rank) noexcept override;

 private:
  sim_device& device_;
};

// A mistake of the caller that no backend has to survive: says what, and aborts.
void sim_require(bool condition, const char* what);

}  // namespace lci::test
