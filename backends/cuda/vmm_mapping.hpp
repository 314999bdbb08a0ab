// A VMM allocation at an address of its own, for one GPU. Callers: import_cache, memory_sharing.
// Threads: any; no state. Always true: a failure leaves nothing behind; the handle stays the
// caller's, and the mapping keeps the memory without it.
#pragma once

#include <cstddef>

#include "backends/cuda/errors.hpp"

namespace lci::cuda {

// Reserves, maps and allows reads and writes. `size` is a multiple of the granularity.
failure map_handle(const abi::functions& call, abi::allocation_handle handle, int ordinal,
                   std::size_t size, abi::device_ptr& base) noexcept;
void unmap_handle(const abi::functions& call, abi::device_ptr base, std::size_t size) noexcept;
// What an allocation on that GPU that can be passed on as a descriptor is; the unit of its size.
failure describe_shareable(const abi::functions& call, int ordinal, abi::allocation_prop& prop,
                           std::size_t& unit) noexcept;

}  // namespace lci::cuda
