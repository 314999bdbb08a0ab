// How one card registers memory: loosely or strictly ordered, on demand, and memory of GPUs by the
// ladder. One per card. Owned by regions. Threads: shared. Always true: a null answer leaves the
// reason in errno.
#pragma once

#include <atomic>
#include <cstddef>
#include <string>

#include "backends/ibv/handles.hpp"
#include "backends/ibv/paging.hpp"
#include "lci/mem/registration_ladder.hpp"
#include "lci/net/backend.hpp"

namespace lci::ibv {

class registrar final : private mem::device_registrar {
 public:
  // device: what messages call it.
  registrar(ibv_pd* pd, std::string device, const net::fabric_config& config);

  const std::string& name() const noexcept { return device_; }
  // For what is looked at while it is written.
  mr_handle strictly(void* address, std::size_t size, unsigned access);
  // Host memory of programs. Memory that cannot be written is a source alone.
  mr_handle host(void* address, std::size_t size, bool& is_source_only);
  // The registration of all memory, told that this range of it is used; null: there is none.
  const ibv_mr* of_everything(void* address, std::size_t size) noexcept;
  // Memory of a GPU. Throws where the environment asks for a way that there is not.
  mem::device_registration device(void* address, std::size_t size);
  // backend_error for what host() has refused.
  [[noreturn]] void throw_refused(std::size_t size, int error) const;

 private:
  mr_handle loosely(void* address, std::size_t size, unsigned access);
  mem::registration_answer register_range(const mem::descriptor_range& what) override;
  mem::registration_answer register_pointer(void* address, std::size_t size) override;

  ibv_pd* const pd_;
  const std::string device_;
  mem::registration_ladder ladder_;
  paging paging_;
  const unsigned loose_;  // a flag, or 0: then a later write wins over an earlier one
  // Set while the card refuses loosely ordered registrations.
  std::atomic<bool> is_strict_{false};
};

}  // namespace lci::ibv
