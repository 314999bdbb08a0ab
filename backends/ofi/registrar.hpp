// How a domain registers memory, in each of the ways that providers want it (FI_MR_*), and memory
// of GPUs by the ladder. Owned by regions. Threads: shared; one at a time inside libfabric where a
// program asked for that. Always true: a null answer leaves the reason in `code`, negative.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>

#include "backends/ofi/queues.hpp"
#include "lci/mem/registration_ladder.hpp"
#include "lci/net/backend.hpp"

namespace lci::ofi {

// A registration, closed under the lock of its registrar, if that has one.
class registrar;
struct registered_close {
  registrar* by = nullptr;
  void operator()(fid_mr* mr) const noexcept;
};
using registered = std::unique_ptr<fid_mr, registered_close>;

class registrar final : private mem::device_registrar {
 public:
  // keys: the endpoint that they are bound to where the provider binds them; outlives this.
  registrar(const opened_domain& on, fid_ep* keys, const net::fabric_config& config);

  const std::string& name() const noexcept { return on_.name; }
  // From now on one thread at a time.
  void serialise() noexcept { is_serial_.store(true, std::memory_order_relaxed); }
  // Host memory. What cannot be written is a source alone.
  registered host(void* address, std::size_t size, bool& is_source_only, long& code);
  // Memory of a GPU. Throws where the environment asks for a way that there is not.
  mem::device_registration device(void* address, std::size_t size);
  registered adopt(std::uint64_t key) noexcept {
    return registered(reinterpret_cast<fid_mr*>(key), {this});
  }
  void close(fid_mr* mr) noexcept;
  bool has_mode(int bit) const noexcept { return (on_.info->domain_attr->mr_mode & bit) != 0; }
  // backend_error for what host() has refused.
  [[noreturn]] void throw_refused(std::size_t size, long code) const;

 private:
  std::unique_lock<std::mutex> lock_if_serial() noexcept;
  fid_mr* make(fi_mr_attr& attr, std::uint64_t flags, long& code);
  mem::registration_answer register_range(const mem::descriptor_range& what) override;
  mem::registration_answer register_pointer(void* address, std::size_t size) override;

  const opened_domain& on_;
  fid_ep* const keys_;
  mem::registration_ladder ladder_;
  std::atomic<std::uint64_t> next_key_{1};
  std::atomic<bool> is_serial_{false};
  std::mutex mutex_;  // around libfabric's calls while is_serial_
};

inline void registered_close::operator()(fid_mr* mr) const noexcept { by->close(mr); }

}  // namespace lci::ofi
