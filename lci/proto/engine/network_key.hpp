// The registration of a buffer with a network, for the life of the object that owns it: a
// registered region of the program, or one operation. GPU memory that the network cannot register
// is no error but "off": this buffer goes another way, and the next is tried anew. Callers:
// runtime, the protocols. Threads: single. Always true: what was registered is deregistered exactly
// once, by the last owner or by whom it was released to.
#pragma once

#include <cstdint>
#include <utility>

#include "lci/net/backend.hpp"
#include "lci/types.hpp"

namespace lci::proto {

// Whether the network that can do so takes such memory.
inline bool may_register(const net::capabilities& can, attr_gpu_path_t way,
                         mem::mem_kind kind) noexcept {
  return kind == mem::mem_kind::host || (can.device_memory && way != attr_gpu_path_t::staged);
}

class network_key {
 public:
  network_key() = default;
  // Registers, if the peers that it is for are reached by something that wants keys: `can` is
  // fabric::caps_of() one, or caps() for all. Throws backend_error: host memory that cannot be
  // registered, and GPU memory that cannot where `way` is direct, with every reason.
  network_key(net::fabric& fabric, const net::capabilities& can, attr_gpu_path_t way, void* address,
              std::size_t size, mem::mem_kind kind);
  network_key(network_key&& other) noexcept
      : fabric_(other.fabric_), key_(other.release()), is_off_(other.is_off_) {}
  network_key& operator=(network_key&& other) noexcept {
    std::swap(fabric_, other.fabric_);
    std::swap(key_, other.key_);
    std::swap(is_off_, other.is_off_);
    return *this;
  }
  ~network_key() {
    if (key_ != 0) fabric_->deregister_region(key_);
  }

  // 0: nothing was registered, or no key is needed.
  std::uint64_t get() const noexcept { return key_; }
  // Whose key it is; another network reads it as something else.
  bool is_of(const net::fabric& one) const noexcept { return fabric_ == &one; }
  // GPU memory that the network must not be given.
  bool is_off() const noexcept { return is_off_; }
  // To the code that deregisters it.
  std::uint64_t release() noexcept { return std::exchange(key_, 0); }

 private:
  net::fabric* fabric_ = nullptr;
  std::uint64_t key_ = 0;
  bool is_off_ = false;
};

}  // namespace lci::proto
