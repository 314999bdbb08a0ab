// A VMM allocation at an address of its own. Callers: import_cache, memory_sharing.
// Threads: any; no state. Always true: a failure leaves nothing behind; the handle stays the
// caller's, and the mapping keeps the memory without it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backends/cuda/errors.hpp"

namespace lci::cuda {

// Which GPUs of this process may access a mapping: the one that it is made for, or those with peer
// access to that one too. Each GPU costs a call of the driver.
enum class vmm_access : std::uint8_t { one_gpu, every_gpu };

// Reserves, maps and allows reads and writes. `size` is a multiple of the granularity. A GPU that
// cannot have access is left out, unless it is the one of `ordinal`.
failure map_handle(const abi::functions& call, abi::allocation_handle handle, int ordinal,
                   std::size_t size, vmm_access who, abi::device_ptr& base) noexcept;
void unmap_handle(const abi::functions& call, abi::device_ptr base, std::size_t size) noexcept;
// What an allocation on that GPU that can be passed on in these ways is; the unit of its size.
failure describe_shareable(const abi::functions& call, int ordinal, abi::handle_type as,
                           abi::allocation_prop& prop, std::size_t& unit) noexcept;

}  // namespace lci::cuda
