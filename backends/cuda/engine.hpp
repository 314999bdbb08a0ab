// What stands behind a memory domain, once per process, and the functions of a domain on top of it.
// Callers: domain.cpp, for CUDA, and that of backends/hip, which fills the driver's table
// otherwise. Threads: shared. Always true: making one costs nothing and loads nothing; asking what
// a pointer is never starts CUDA.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "backends/cuda/accelerator.hpp"
#include "backends/cuda/driver.hpp"
#include "backends/cuda/errors.hpp"
#include "backends/cuda/memory_sharing.hpp"
#include "backends/cuda/network_memory.hpp"
#include "backends/cuda/pointer_cache.hpp"
#include "backends/cuda/queue_memory.hpp"
#include "backends/cuda/report.hpp"
#include "backends/cuda/user_allocators.hpp"
#include "lci/mem/memory_domain.hpp"

namespace lci::cuda {

struct engine {
  explicit engine(driver_options options) : d(std::move(options)) {}
  driver d;
  pointer_cache pointers{d};
  user_allocators given{d};
};

// A domain is a list of plain functions, so its engine is a parameter of them: what `Here` answers.
// `Self` is the domain that find() names.
template <engine& (*Here)(), const mem::memory_domain& Self>
struct domain_functions {
  static std::string probe() { return Here().d.why_not(); }

  static mem::memory_place find(const void* address) noexcept {
    const classified found = Here().pointers.find(address);
    mem::memory_place place;
    if (!found.error && found.what.kind == allocation_kind::host) return place;
    place.domain = &Self;
    place.is_handled = !found.error && is_usable(found.what.kind);
    place.kind = found.what.memory();
    place.is_pinned = found.what.kind == allocation_kind::pinned;
    place.device = found.what.ordinal;
    // Other memory can be mapped at a VMM address under the same id.
    const allocation_kind kind = found.what.kind;
    if (kind == allocation_kind::device || kind == allocation_kind::pool)
      place.buffer_id = found.what.id.buffer_id;
    return place;
  }

  static std::string describe(const void* address) {
    const classified found = Here().pointers.find(address);
    return std::string(name_of(found.what.kind)) + " memory of GPU " +
           std::to_string(found.what.ordinal);
  }

  static std::string refusal(const void* address) {
    const classified found = Here().pointers.find(address);
    if (found.error) return text_of(*Here().d.in_process(), found.error, "the pointer");
    return why_unusable(found.what);
  }

  static std::unique_ptr<mem::accelerator> start(mem::arena& records) {
    return std::make_unique<accelerator>(Here().d, Here().pointers, records);
  }

  static void* allocate(std::size_t size, int device, bool pinned) {
    return Here().given.allocate(size, device, pinned);
  }

  static void release(void* memory) { Here().given.release(memory); }

  // The list lives for one question: it holds a context only for memory that has none of its own,
  // and that no longer than the question takes.
  static mem::network_export export_for_network(const void* address, std::size_t size,
                                                bool over_pcie) {
    const classified found = Here().pointers.find(address);
    if (!found.error) {
      gpu_list gpus(Here().d);
      return export_dma_buf(gpus, found.what, as_device(address), size, over_pcie);
    }
    return not_known<mem::network_export>(found, address);
  }

  static mem::network_pointer ready_for_network(const void* address) {
    const classified found = Here().pointers.find(address);
    if (!found.error) {
      gpu_list gpus(Here().d);
      return ready_pointer(gpus, found.what);
    }
    return not_known<mem::network_pointer>(found, address);
  }

  static std::vector<mem::device_report> report() { return report_gpus(Here().d); }

  static std::string chosen_device() { return address_of_current(Here().d); }

  static std::string pci_of(int device) { return address_of(Here().d, device); }

  static bool has_driver() {
    const abi::functions* const call = Here().d.in_process();
    int gpus = 0;
    return call != nullptr && call->device_get_count(&gpus) == abi::result::success && gpus > 0;
  }

  static std::unique_ptr<mem::kernel_memory> open_queues() { return open_for_kernels(Here().d); }

  static std::unique_ptr<mem::memory_sharing> open_sharing() {
    return std::make_unique<memory_sharing>(Here().d, Here().pointers);
  }

  static constexpr mem::memory_domain named(std::string_view name, std::string_view variable) {
    return {name,
            variable,
            &probe,
            &find,
            &describe,
            &refusal,
            &start,
            &allocate,
            &release,
            &export_for_network,
            &ready_for_network,
            &report,
            &chosen_device,
            &pci_of,
            &has_driver,
            &open_queues,
            &open_sharing};
  }

 private:
  template <class Answer>
  static Answer not_known(const classified& found, const void* address) {
    Answer none;
    none.error = static_cast<int>(found.error.code);
    none.why_not = refusal(address);
    return none;
  }
};

}  // namespace lci::cuda
