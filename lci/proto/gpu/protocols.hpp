// The protocols of GPU memory on one device, and how they hang in the engine and in the protocols
// of host memory. Owned by the device's queues. Threads: shared.
#pragma once

#include "lci/mem/payload_pool.hpp"
#include "lci/proto/gpu/common.hpp"
#include "lci/proto/gpu/flags.hpp"
#include "lci/proto/gpu/payloads.hpp"
#include "lci/proto/gpu/preposted_receives.hpp"
#include "lci/proto/gpu/staged.hpp"
#include "lci/proto/host/accelerator_hook.hpp"

namespace lci::proto::gpu {

class protocols final : public part, private accelerator_hook {
 public:
  protocols(host_context& host, gpu::common& common);
  ~protocols();
  protocols(const protocols&) = delete;
  protocols& operator=(const protocols&) = delete;

  // Active messages with zero_copy_am are delivered in that pool; the last one that entered counts.
  void enter(mem::payload_pool& pool) noexcept { payloads_.enter(pool); }
  void leave(mem::payload_pool& pool) noexcept { payloads_.leave(pool); }

  std::size_t poll() override;
  std::size_t serve_waiting() noexcept override;
  bool is_quiet() const noexcept override;
  devices& gpus() noexcept { return context_.common.gpus; }
  // For what is above the protocols, as devices has them: has_copies() counts them.
  void copy(device_job& job) noexcept { context_.copy(job); }
  bool deliver(device_delivery& job) noexcept {
    return context_.common.gpus.deliver(job, &context_.host.gpu_copies);
  }
  // Buffers and what the device has of operations are in use by GPUs; they end by themselves.
  bool has_copies() const noexcept { return context_.has_copies(); }
  void on_peer_ended(int rank, peer_end how) noexcept override;

  // For tests.
  staged_transfers& staged() noexcept { return staged_; }
  awaited_flags& flags() noexcept { return flags_; }
  preposted_receives& preposted() noexcept { return preposted_; }

 private:
  void use(const mem::memory_domain& domain) override { context_.common.gpus.use(domain); }
  std::optional<errorcode_t> start_message(outgoing& out) override;
  std::optional<errorcode_t> start_put(outgoing& out, network_key& key) override;
  std::optional<errorcode_t> start_get(outgoing& out, network_key& key) override;
  void prepare(receive& record, int rank, tag_t tag, rcomp_t rcomp) override {
    preposted_.prepare(record, rank, tag, rcomp);
  }
  void publish(int rank, wire::name preposted, match::engine& where) override {
    preposted_.publish(rank, preposted, where);
  }
  bool withdraw(receive& record) noexcept override { return preposted_.withdraw(record); }
  bool write_by_cpu(void* to, const void* from, std::size_t size) noexcept override {
    return context_.common.gpus.write_by_cpu(to, from, size);
  }
  void deliver(receive& to, const status_t& status, const std::byte* data) override;
  net::verdict deliver_am(comp_impl_t& to, int rank, const std::byte* data, std::size_t size,
                          tag_t tag) noexcept override {
    return payloads_.deliver(to, rank, data, size, tag);
  }
  void on_rts(comp_impl_t& to, int rank, const wire::rts& request) override {
    payloads_.on_rts(to, rank, request);
  }
  bool deliver_at(comp_impl_t& to, const status_t& status, const am_place& at,
                  const std::byte* data) noexcept override {
    return payloads_.deliver_at(to, status, at, data);
  }
  target_way find_target(wire::name sender, const recv_plan& plan, mem::region& target,
                         network_key& key, std::string& why_not) override;
  void receive_staged(wire::name sender, const recv_plan& plan,
                      const std::string& why_not) override;
  void receive_in_pieces(wire::name sender, const recv_plan& plan) override {
    staged_.receive(sender, plan);
  }
  void send_in_pieces(wire::name self, const send_plan& plan, const wire::rtr& to) override {
    staged_.send(self, plan, to);
  }
  write_way prepare_write(wire::name self, send_side& side) noexcept override;
  void on_drop_send(int rank, wire::name sender) noexcept override {
    staged_.on_drop_send(rank, sender);
  }
  void on_drop_receive(int rank, wire::name receiver) noexcept override {
    staged_.on_drop_receive(rank, receiver);
  }
  bool has_heard(int rank, std::uint32_t imm) noexcept override { return flags_.is_set(rank, imm); }
  std::string_view change_word(mem::atomic_job& job) noexcept override {
    return context_.common.gpus.change_word(job);
  }

  context context_;
  staged_transfers staged_{context_};
  awaited_flags flags_{context_, preposted_};
  preposted_receives preposted_{context_, flags_, peer_preposted_};
  peer_preposted peer_preposted_{context_};
  payload_arrivals payloads_{context_};
};

}  // namespace lci::proto::gpu
