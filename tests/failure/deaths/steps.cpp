#include "steps.hpp"

#include <array>
#include <atomic>
#include <csignal>
#include <utility>

#include "backends/provider_list.hpp"

namespace lci {
namespace {

// All relaxed: numbers of this process, and it dies with them.
std::atomic<long> steps_left{0};
std::atomic<bool> polls_count{false};
std::atomic<std::size_t> registrations{0};
std::array<std::atomic<std::size_t>, test::steps::WAYS> bytes{};

using way = test::steps::way;

void step() noexcept {
  if (steps_left.load(std::memory_order_relaxed) > 0 &&
      steps_left.fetch_sub(1, std::memory_order_relaxed) == 1)
    std::raise(SIGKILL);
}

errorcode_t counted(errorcode_t answer, way by, std::size_t size) noexcept {
  if (answer != errorcode_t::done && answer != errorcode_t::posted) return answer;
  bytes[static_cast<std::size_t>(by)].fetch_add(size, std::memory_order_relaxed);
  step();
  return answer;
}

class counting_sink final : public net::sink {
 public:
  explicit counting_sink(net::sink& to) : to_(to) {}
  net::verdict on_message(const net::arrival& message) noexcept override {
    step();
    const net::verdict answer = to_.on_message(message);
    if (answer != net::verdict::deferred) step();
    return answer;
  }
  void on_immediate(int rank, std::uint32_t imm) noexcept override {
    step();
    to_.on_immediate(rank, imm);
    step();
  }
  void on_complete(void* context) noexcept override {
    step();
    to_.on_complete(context);
    step();
  }
  void on_error(int rank, void* context, std::string_view reason) noexcept override {
    to_.on_error(rank, context, reason);
  }
  void on_peer_ended(int rank, bool orderly, std::string_view reason) noexcept override {
    to_.on_peer_ended(rank, orderly, reason);
  }

 private:
  net::sink& to_;
};

class counting_endpoint final : public net::endpoint {
 public:
  explicit counting_endpoint(std::unique_ptr<net::endpoint> real) : real_(std::move(real)) {}
  errorcode_t send_inline(int rank, std::uint32_t imm, const void* head, std::size_t head_size,
                          const void* payload, std::size_t size) noexcept override {
    return counted(real_->send_inline(rank, imm, head, head_size, payload, size), way::in_line,
                   size);
  }
  errorcode_t send(const net::net_op& op) noexcept override {
    return counted(real_->send(op), op.packet != nullptr ? way::packet : way::buffer, op.size);
  }
  errorcode_t put(const net::net_op& op) noexcept override {
    return counted(real_->put(op), way::write, op.size);
  }
  errorcode_t put_imm(const net::net_op& op) noexcept override {
    return counted(real_->put_imm(op), way::write, op.size);
  }
  errorcode_t get(const net::net_op& op) noexcept override {
    return counted(real_->get(op), way::read, op.size);
  }
  errorcode_t would_post(int rank) noexcept override { return real_->would_post(rank); }
  std::uint64_t unconsumed(int rank) noexcept override { return real_->unconsumed(rank); }

 private:
  const std::unique_ptr<net::endpoint> real_;
};

class counting_device final : public net::device {
 public:
  explicit counting_device(std::unique_ptr<net::device> real) : real_(std::move(real)) {}
  std::unique_ptr<net::endpoint> make_endpoint() override {
    return std::make_unique<counting_endpoint>(real_->make_endpoint());
  }
  std::unique_ptr<net::endpoint> make_control_endpoint() override {
    return std::make_unique<counting_endpoint>(real_->make_control_endpoint());
  }
  std::size_t poll(net::sink& to, std::size_t max) noexcept override {
    if (polls_count.load(std::memory_order_relaxed)) step();
    counting_sink counting(to);
    return real_->poll(counting, max);
  }
  bool is_drained() const noexcept override { return real_->is_drained(); }
  bool may_bring(int rank) const noexcept override { return real_->may_bring(rank); }

 private:
  const std::unique_ptr<net::device> real_;
};

class counting_fabric final : public net::fabric {
 public:
  explicit counting_fabric(std::unique_ptr<net::fabric> real) : real_(std::move(real)) {}
  const net::capabilities& caps() const noexcept override { return real_->caps(); }
  std::string_view name() const noexcept override { return real_->name(); }
  std::string address() const override { return real_->address(); }
  std::unique_ptr<net::device> make_device(int index, net::device_config& config) override {
    return std::make_unique<counting_device>(real_->make_device(index, config));
  }
  void connect(int rank) noexcept override { real_->connect(rank); }
  bool hear_callers() noexcept override { return real_->hear_callers(); }
  net::remote_view check_remote(int rank, net::remote_key key, int device) noexcept override {
    return real_->check_remote(rank, key, device);
  }
  std::byte* reach(int rank, std::uint64_t place, std::size_t size) noexcept override {
    return real_->reach(rank, place, size);
  }
  int process_of(int rank) noexcept override { return real_->process_of(rank); }
  std::uint64_t register_region(void* address, std::size_t size, mem::mem_kind kind,
                                std::string& why_not) override {
    const std::uint64_t key = real_->register_region(address, size, kind, why_not);
    if (key == 0) return 0;
    registrations.fetch_add(1, std::memory_order_relaxed);
    return key;
  }
  void deregister_region(std::uint64_t local_key) noexcept override {
    real_->deregister_region(local_key);
    if (local_key != 0) registrations.fetch_sub(1, std::memory_order_relaxed);
  }
  void publish(net::remote_key name, std::uint64_t local_key) noexcept override {
    real_->publish(name, local_key);
  }
  net::remote_target target_of(net::remote_key name) noexcept override {
    return real_->target_of(name);
  }
  void leave() noexcept override { real_->leave(); }

 private:
  const std::unique_ptr<net::fabric> real_;
};

// The same provider, whose fabrics count.
template <std::size_t I>
net::provider counting() {
  net::provider out = *PROVIDERS[I];
  out.open = [](const net::fabric_config& config) -> std::unique_ptr<net::fabric> {
    return std::make_unique<counting_fabric>(PROVIDERS[I]->open(config));
  };
  return out;
}

template <std::size_t... I>
auto all_counting(std::index_sequence<I...>) {
  return std::array{counting<I>()...};
}

}  // namespace

std::span<const net::provider> net::providers() {
  static const auto all = all_counting(std::make_index_sequence<std::size(PROVIDERS)>());
  return all;
}

std::span<const mem::memory_domain> mem::memory_domains() {
  static const auto all = gather(MEMORY_DOMAINS);
  return all;
}

namespace test {

void steps::die_at(long at, bool counts_polls) noexcept {
  polls_count.store(counts_polls, std::memory_order_relaxed);
  steps_left.store(at, std::memory_order_relaxed);
}

std::size_t steps::carried(way by) noexcept {
  return bytes[static_cast<std::size_t>(by)].load(std::memory_order_relaxed);
}

std::size_t steps::live_registrations() noexcept {
  return registrations.load(std::memory_order_relaxed);
}

}  // namespace test
}  // namespace lci
