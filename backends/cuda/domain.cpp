#include "backends/cuda/domain.hpp"

#include "backends/cuda/accelerator.hpp"
#include "backends/cuda/driver.hpp"
#include "backends/cuda/errors.hpp"
#include "backends/cuda/network_memory.hpp"
#include "backends/cuda/pointer_cache.hpp"
#include "backends/cuda/user_memory.hpp"

namespace lci::cuda {
namespace {

// One for the process, as CUDA itself is. Made at the first question, which costs nothing yet.
struct process_wide {
  driver d{options_from_environment()};
  pointer_cache pointers{d};
  user_memory given{d};
};
process_wide& here() {
  static process_wide one;
  return one;
}

std::string probe() { return here().d.why_not(); }

mem::memory_place find(const void* address) noexcept {
  const classified found = here().pointers.find(address);
  mem::memory_place place;
  if (!found.error && found.what.kind == allocation_kind::host) return place;
  place.domain = &DOMAIN;
  place.is_handled = !found.error && is_usable(found.what.kind);
  place.kind = found.what.memory();
  place.is_pinned = found.what.kind == allocation_kind::pinned;
  place.device = found.what.ordinal;
  return place;
}

std::string describe(const void* address) {
  const classified found = here().pointers.find(address);
  return std::string(name_of(found.what.kind)) + " memory of GPU " +
         std::to_string(found.what.ordinal);
}

std::string refusal(const void* address) {
  const classified found = here().pointers.find(address);
  if (found.error) return text_of(*here().d.in_process(), found.error, "the pointer");
  return why_unusable(found.what);
}

std::unique_ptr<mem::accelerator> start(mem::arena& records) {
  return std::make_unique<accelerator>(here().d, here().pointers, records);
}

void* allocate(std::size_t size, int device, bool pinned) {
  return here().given.allocate(size, device, pinned);
}

void release(void* memory) { here().given.release(memory); }

// The list lives for one question: it holds a context only for memory that has none of its own, and
// that no longer than the question takes.
mem::network_export export_for_network(const void* address, std::size_t size, bool via_pcie) {
  const classified found = here().pointers.find(address);
  if (!found.error) {
    gpu_list gpus(here().d);
    return export_dma_buf(gpus, found.what, as_device(address), size, via_pcie);
  }
  mem::network_export none;
  none.error = static_cast<int>(found.error.code);
  none.why_not = refusal(address);
  return none;
}

mem::network_pointer ready_for_network(const void* address) {
  const classified found = here().pointers.find(address);
  if (!found.error) {
    gpu_list gpus(here().d);
    return ready_pointer(gpus, found.what);
  }
  mem::network_pointer none;
  none.error = static_cast<int>(found.error.code);
  none.why_not = refusal(address);
  return none;
}

}  // namespace

const mem::memory_domain DOMAIN{
    "cuda", &probe,    &find,    &describe,           &refusal,
    &start, &allocate, &release, &export_for_network, &ready_for_network};

}  // namespace lci::cuda
