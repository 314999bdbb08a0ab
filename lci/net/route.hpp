// Two networks that look like one: some peers are reached over the local one, the rest over the
// remote one. A rank has one way for good, so what holds for each network (order of messages, one
// death, one end per operation) holds for the two together.
//
//   routes           the way to each rank, and what can be done on it
//   routed_fabric    both networks, opened; registrations are with the remote one
//   routed_device    polls both; the remote one less often while nothing happens there
//   routed_endpoint  posts to one of them
//
// Callers: runtime makes the fabric; proto sees net::fabric. Threads: as the contract says; routes
// are immutable. Always true: the local network wants no keys; each network meets only its own
// ranks, since no rank is talked to over the other.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lci/base/owned.hpp"
#include "lci/net/backend.hpp"

namespace lci::net {

enum class way : std::uint8_t { local, remote };

class routes {
 public:
  // `ways` by rank; the capabilities outlive this.
  routes(std::vector<way> ways, const capabilities& local, const capabilities& remote);

  way to(int rank) const noexcept { return ways_[static_cast<std::size_t>(rank)]; }
  const way* data() const noexcept { return ways_.data(); }
  int count(way which) const noexcept;
  const capabilities* const* caps_by_rank() const noexcept { return caps_.data(); }

 private:
  std::vector<way> ways_;
  std::vector<const capabilities*> caps_;
};

class routed_fabric final : public fabric {
 public:
  // Throws backend_error where the local network wants keys.
  routed_fabric(std::unique_ptr<fabric> local, std::unique_ptr<fabric> remote,
                std::vector<way> ways);
  ~routed_fabric() override;

  const capabilities& caps() const noexcept override { return caps_; }
  // Of the remote one: which is the one that a user may have chosen.
  std::string_view name() const noexcept override { return remote_->name(); }
  network_names names() const override { return remote_->names(); }
  // Both, for people: each was told to the others when its network was opened.
  std::string address() const override { return local_->address() + " | " + remote_->address(); }
  using fabric::make_device;
  // config: of the remote one, whose queues have sizes.
  std::unique_ptr<device> make_device(int index, device_config& config) override;
  void connect(int rank) noexcept override { at(rank).connect(rank); }
  using fabric::check_remote;
  remote_view check_remote(int rank, remote_key key, int device) noexcept override {
    return at(rank).check_remote(rank, key, device);
  }
  std::byte* reach(int rank, std::uint64_t place, std::size_t size) noexcept override {
    return at(rank).reach(rank, place, size);
  }
  int process_of(int rank) noexcept override { return at(rank).process_of(rank); }
  // The local network knows host memory without; memory of GPUs goes past it.
  std::uint64_t register_region(void* address, std::size_t size, mem::mem_kind kind,
                                std::string& why_not) override {
    return remote_->register_region(address, size, kind, why_not);
  }
  void deregister_region(std::uint64_t local_key) noexcept override {
    remote_->deregister_region(local_key);
  }
  void publish(remote_key name, std::uint64_t local_key) override {
    remote_->publish(name, local_key);
  }
  remote_target target_of(remote_key name) noexcept override { return remote_->target_of(name); }
  kernel_card* card_for_kernels() noexcept override { return remote_->card_for_kernels(); }
  bool hear_callers() noexcept override {
    return local_->hear_callers() && remote_->hear_callers();
  }
  void let_go(int rank, bool has_failed) noexcept override { at(rank).let_go(rank, has_failed); }
  void leave() noexcept override;

  const routes& table() const noexcept { return routes_; }
  const fabric& local() const noexcept { return *local_; }

 private:
  fabric& at(int rank) noexcept { return routes_.to(rank) == way::local ? *local_ : *remote_; }

  const std::unique_ptr<fabric> local_, remote_;
  const routes routes_;
  const capabilities caps_;
};

class routed_device final : public device {
 public:
  routed_device(const routes& table, std::unique_ptr<device> local, std::unique_ptr<device> remote)
      : routes_(table),
        local_(std::move(local)),
        remote_(std::move(remote)),
        has_remote_(table.count(way::remote) != 0) {}
  ~routed_device() override { polling_.disown(); }
  std::unique_ptr<endpoint> make_endpoint() override {
    return both(local_->make_endpoint(), remote_->make_endpoint());
  }
  std::unique_ptr<endpoint> make_control_endpoint() override {
    return both(local_->make_control_endpoint(), remote_->make_control_endpoint());
  }
  std::size_t poll(sink& to, std::size_t max) noexcept override;
  std::size_t poll_beside(sink& to, std::size_t max) noexcept override {
    return local_->poll_beside(to, max);
  }
  bool is_drained() const noexcept override {
    return local_->is_drained() && remote_->is_drained();
  }
  bool may_bring(int rank) const noexcept override {
    return routes_.to(rank) == way::local ? local_->may_bring(rank) : remote_->may_bring(rank);
  }
  // Something may come from the remote network soon: it is polled each time for a while.
  void expect_remote() noexcept {
    // Relaxed, here and in poll(): a hint, of which a lost change costs some polls.
    if (quiet_.load(std::memory_order_relaxed) != 0) quiet_.store(0, std::memory_order_relaxed);
  }

  // After so many polls without an event or a post the remote network is quiet, and polled once in
  // QUIET_EVERY times. See docs/decisions/0021-routes.md.
  static constexpr std::uint32_t QUIET_AFTER = 1024, QUIET_EVERY = 8;

 private:
  std::unique_ptr<endpoint> both(std::unique_ptr<endpoint> local, std::unique_ptr<endpoint> remote);
  bool is_remote_due() noexcept;

  const routes& routes_;
  const std::unique_ptr<device> local_, remote_;
  const bool has_remote_;
  base::owned polling_;  // one thread at a time in both together, but for poll_beside()
  std::atomic<std::uint32_t> quiet_{0};  // polls since something happened on the remote network
};

class routed_endpoint final : public endpoint {
 public:
  routed_endpoint(const routes& table, routed_device& home, std::unique_ptr<endpoint> local,
                  std::unique_ptr<endpoint> remote)
      : ways_(table.data()), home_(home), local_(std::move(local)), remote_(std::move(remote)) {}
  errorcode_t send_inline(int rank, std::uint32_t imm, const void* head, std::size_t head_size,
                          const void* payload, std::size_t size) noexcept override;
  errorcode_t put_inline(const small_put& what) noexcept override;
  errorcode_t send(const net_op& op) noexcept override;
  errorcode_t put(const net_op& op) noexcept override;
  errorcode_t put_imm(const net_op& op) noexcept override;
  errorcode_t get(const net_op& op) noexcept override;
  errorcode_t would_post(int rank) noexcept override { return at(rank).would_post(rank); }
  std::uint64_t unconsumed(int rank) noexcept override { return at(rank).unconsumed(rank); }

 private:
  endpoint& at(int rank) noexcept {
    if (ways_[rank] == way::local) [[likely]]
      return *local_;
    home_.expect_remote();
    return *remote_;
  }

  const way* const ways_;
  routed_device& home_;
  const std::unique_ptr<endpoint> local_, remote_;
};

}  // namespace lci::net
