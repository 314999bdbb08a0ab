// A CUDA driver without a GPU: a shared library called libcuda.so.1 that is loaded like the real
// one. What the driver offers goes through cuGetProcAddress; what a test wants to know or to set
// goes through this interface, which the same library hands out (lci_mock_cuda()).
//
// The model: device memory is an address range that the processor cannot touch, with a memory file
// behind it that only the "copy engine" sees, so that a wrong dereference crashes as it would on a
// GPU, and other processes can open the file through a handle. Streams run when told to
// (advance()), in an order between streams that a seed decides, or in a thread of their own.
// Threads: shared, one lock. Always true: nothing that a program could not do with a real driver
// works here because of missing checks that we know of; every call is counted by name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "backends/cuda/abi.hpp"

namespace lci::test {

enum class mock_memory {
  device,
  pinned,
  managed,
  pool,
  vmm,
  vmm_fabric,  // with a fabric handle and no descriptor
  vmm_without_export,
  gpu_only_host
};

struct mock_config {
  int driver_version = 13000;
  int gpus = 2;  // 0: cuInit says that there is no device
  bool unified_addressing = true;
  bool peer_access = true;
  bool peer_atomics = true;
  bool stream_writes = true;
  bool vmm_descriptors = true;
  bool fabric_handles = false;
  bool fabric_allowed = true;  // false: this process may neither make nor take them
  bool dma_buf = true;
  bool pcie_dma_buf = false;  // through PCIe too, as where cards have Data Direct
  bool direct_rdma = true;
  bool knows_block_id = true;  // false: the attribute is too young for this driver
  // Looks in vain, and looks at all, after which the resident copy kernel ends.
  unsigned resident_idle = 20000, resident_life = 200000;
  std::vector<std::string> missing{};  // entry points that cuGetProcAddress does not find
};

class mock_cuda {
 public:
  // Everything as at the start; what leaked is freed. Contexts of other threads stay.
  virtual void reset(const mock_config& config = {}) = 0;

  // The user's side of the driver. Throws std::runtime_error on misuse.
  virtual void start() = 0;  // cuInit, as a user's program would have called it
  virtual void* allocate(mock_memory kind, std::size_t size, int gpu = 0) = 0;
  virtual void free(void* memory) = 0;
  // Other physical memory behind the same VMM address, without a new buffer id.
  virtual void remap(void* memory) = 0;
  // A reserved address range with nothing behind it.
  virtual void* reserve(std::size_t size) = 0;
  // What a kernel would see; null for an address that is not mapped.
  virtual std::byte* contents(const void* memory) = 0;
  // VMM memory that was mapped: whether that GPU was given access to it.
  virtual bool has_access(const void* memory, int gpu) = 0;
  // Of the allocation there, 0: none; and of the next one to be made.
  virtual std::uint64_t buffer_id(const void* memory) = 0;
  virtual std::uint64_t next_buffer_id() = 0;
  virtual void begin_capture() = 0;  // a graph capture that forbids unsafe calls in any thread
  virtual bool end_capture() = 0;    // false: somebody's call has spoilt it
  virtual void destroy_context(int gpu) = 0;  // as after cuDevicePrimaryCtxReset

  // The engine. Runs up to `count` operations, of streams chosen by the seed; answers how many ran.
  virtual std::size_t advance(std::size_t count) = 0;
  virtual std::size_t run_all() = 0;
  virtual void set_seed(std::uint64_t seed) = 0;
  virtual void set_engine_thread(bool on) = 0;
  virtual std::size_t queued_operations() = 0;
  virtual std::size_t queued_bytes() = 0;  // of copies not yet run

  // Faults. The n-th call from now (1 = the next one) of that name answers `code`.
  virtual void fail_nth(const std::string& call, int n, cuda::abi::result code) = 0;
  // The stream's next operation fails and so does everything behind it: a sticky error.
  virtual void break_next_operation(cuda::abi::result code) = 0;

  // What each call of the driver does first and last, until reset(): tests whose allocations fail
  // spare the driver's own.
  virtual void call_around(void (*before)() noexcept, void (*after)() noexcept) = 0;

  // What happened.
  virtual std::size_t count(const std::string& call) = 0;
  virtual void forget_counts() = 0;
  virtual std::size_t context_depth() = 0;  // of this thread
  virtual bool is_started() = 0;
  // While on, calls that wait for the GPU are noted; the list says which were made.
  virtual void watch_blocking(bool on) = 0;
  virtual std::vector<std::string> blocking_calls() = 0;
  // One line per thing that is still held: contexts, streams, events, handles, mappings, pinned
  // and registered memory, pushed contexts. What allocate() gave is the test's own.
  virtual std::vector<std::string> leaks() = 0;

 protected:
  ~mock_cuda() = default;
};

// Loads the library from `path` (or from the loader's path when empty) and returns its interface;
// null when that library is no mock.
mock_cuda* load_mock_cuda(const std::string& path);

}  // namespace lci::test
