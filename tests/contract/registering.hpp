// What the layer above does on networks that want every local buffer registered: an endpoint that
// registers each one before it posts. On others nothing is kept.
//
// Threads: as the endpoint inside. Always true: a registration lives at least as long as its
// operation; give_back() is for when nothing is under way.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "lci/net/backend.hpp"

namespace lci::test {

// The registrations of one fabric that operations hold.
class held_keys {
 public:
  void keep(std::uint64_t key) {
    const std::lock_guard lock(mutex_);
    keys_.push_back(key);
  }
  void give_back(net::fabric& fabric) {
    const std::lock_guard lock(mutex_);
    for (const std::uint64_t key : std::exchange(keys_, {})) fabric.deregister_region(key);
  }

 private:
  std::mutex mutex_;
  std::vector<std::uint64_t> keys_;
};

class registering_endpoint final : public net::endpoint {
 public:
  registering_endpoint(net::fabric& fabric, held_keys& held, std::unique_ptr<net::endpoint> end)
      : fabric_(fabric), held_(held), end_(std::move(end)) {}
  errorcode_t send_inline(int rank, std::uint32_t imm, const void* head, std::size_t head_size,
                          const void* payload, std::size_t size) noexcept override {
    return end_->send_inline(rank, imm, head, head_size, payload, size);
  }
  errorcode_t send(const net::net_op& op) noexcept override {
    return op.packet != nullptr ? end_->send(op) : post(op, &net::endpoint::send);
  }
  errorcode_t put(const net::net_op& op) noexcept override { return post(op, &net::endpoint::put); }
  errorcode_t put_imm(const net::net_op& op) noexcept override {
    return post(op, &net::endpoint::put_imm);
  }
  errorcode_t get(const net::net_op& op) noexcept override { return post(op, &net::endpoint::get); }
  errorcode_t would_post(int rank) noexcept override { return end_->would_post(rank); }
  std::uint64_t unconsumed(int rank) noexcept override { return end_->unconsumed(rank); }

 private:
  errorcode_t post(net::net_op op, errorcode_t (net::endpoint::*verb)(const net::net_op&)) {
    std::string why_not;
    const std::uint64_t key =
        op.local_key != 0 || op.size == 0
            ? 0
            : fabric_.register_region(op.buffer, op.size, mem::mem_kind::host, why_not);
    if (key != 0) op.local_key = key;
    const errorcode_t answer = (end_.get()->*verb)(op);
    if (key != 0 && answer == errorcode_t::posted)
      held_.keep(key);
    else if (key != 0)
      fabric_.deregister_region(key);
    return answer;
  }

  net::fabric& fabric_;
  held_keys& held_;
  std::unique_ptr<net::endpoint> end_;
};

}  // namespace lci::test
