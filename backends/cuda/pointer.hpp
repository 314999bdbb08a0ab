// What a pointer points to, in the driver's eyes: kind of allocation, GPU, extent, identity.
// Callers: the code that was given a pointer of unknown kind (pointer_cache in front of it),
// sharing, dma-buf export. Threads: any; no state of its own. Always true: one batched driver call
// (two more only for VMM mappings); nothing is initialised by asking; the pointer is never
// dereferenced. Kinds that we do not handle come back as what they are, and why_unusable() has the
// sentence that names the kind.
#pragma once

#include <cstdint>
#include <string>

#include "backends/cuda/abi.hpp"
#include "backends/cuda/errors.hpp"
#include "lci/mem/memory_kind.hpp"

namespace lci::cuda {

enum class allocation_kind : std::uint8_t {
  host,         // CUDA knows nothing of it
  pinned,       // host memory that GPUs reach: cudaMallocHost, cudaHostRegister
  device,       // cudaMalloc, cuMemAlloc
  pool,         // stream-ordered: cudaMallocAsync
  vmm,          // cuMemCreate + cuMemMap
  managed,      // cudaMallocManaged
  unreachable,  // host memory made by CUDA that the processor has no address for
  unmapped      // a reserved address range with nothing behind it
};

// Tells an allocation from every other of this process, earlier and later ones included. The
// driver never uses a buffer id twice; block_id also tells what stands behind a VMM address.
struct identity {
  std::uint64_t buffer_id = 0;
  std::uint64_t block_id = 0;  // of VMM memory; 0 where the driver cannot tell
  bool operator==(const identity&) const = default;
};

struct allocation {
  allocation_kind kind = allocation_kind::host;
  bool legacy_ipc = false;     // cuIpcGetMemHandle accepts it
  bool fd_export = false;      // cuMemExportToShareableHandle gives a descriptor
  bool fabric_export = false;  // and a fabric handle
  int ordinal = -1;            // of the GPU; -1 for plain host memory
  abi::device_ptr base = 0;    // of the allocation; for VMM of the mapping
  std::size_t size = 0;        // bytes from base
  identity id;
  abi::context context = nullptr;  // in which it was made; null for VMM and pools

  // Who may touch the bytes.
  mem::mem_kind memory() const noexcept {
    const bool on_host = kind == allocation_kind::host || kind == allocation_kind::pinned;
    return on_host ? mem::mem_kind::host : mem::mem_kind::device;
  }
  bool contains(abi::device_ptr at, std::size_t bytes) const noexcept {
    return at >= base && at - base <= size && bytes <= size - (at - base);
  }
};

struct classified {
  failure error;  // the driver could not answer; `what` is then empty
  allocation what;
};

// `call` is what driver::in_process() gave; null means plain host memory.
classified classify(const abi::functions* call, const void* pointer) noexcept;

// The cheaper question that a cache asks at each use: is the pointer CUDA's, and whose?
struct glance {
  failure error;
  bool is_plain_host = true;
  std::uint64_t buffer_id = 0;
  abi::device_ptr base = 0;
  std::size_t size = 0;
};
glance look(const abi::functions* call, const void* pointer) noexcept;

constexpr bool is_usable(allocation_kind kind) noexcept {
  return kind != allocation_kind::managed && kind != allocation_kind::unreachable &&
         kind != allocation_kind::unmapped;
}
// Empty, or a sentence that names the kind and says why such memory is not handled.
std::string why_unusable(const allocation& what);
const char* name_of(allocation_kind kind) noexcept;

inline abi::device_ptr as_device(const void* pointer) noexcept {
  return static_cast<abi::device_ptr>(reinterpret_cast<std::uintptr_t>(pointer));
}

}  // namespace lci::cuda
