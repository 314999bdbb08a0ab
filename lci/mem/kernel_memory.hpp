// Host memory of queues, and registers of cards, that kernels of one GPU are to reach. Made by a
// memory_domain for a network, which knows nothing of the GPU's runtime. Threads: shared. Always
// true: whole pages are mapped, once for all callers, and counted.
#pragma once

#include <cstddef>
#include <string>

namespace lci::mem {

class kernel_memory {
 public:
  virtual ~kernel_memory() = default;
  // Where kernels find [host, host + size). is_register: it is a card's register. Throws
  // backend_error with the call and the driver's reason; then nothing is mapped.
  virtual void* map(void* host, std::size_t size, bool is_register) = 0;
  // As often as map().
  virtual void unmap(void* host, std::size_t size) noexcept = 0;
  // Empty, or why no memory of this GPU has a dma-buf.
  virtual std::string why_no_dma_buf() = 0;
};

}  // namespace lci::mem
