// What the library knows about an accelerator's memory before it handles any: which runtime made
// it, whether that can be used here, and what memory a pointer points to. Callers: runtime, when
// memory is registered; api, when a post says that its buffer's kind is unknown or not host memory;
// networks, through registration_ladder; lci_info. Threads: immutable; the functions are shared.
// The list is made in backends/providers.cpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lci/mem/accelerator.hpp"
#include "lci/mem/kernel_memory.hpp"
#include "lci/mem/memory_kind.hpp"
#include "lci/mem/memory_sharing.hpp"
#include "lci/mem/network_export.hpp"

namespace lci::mem {

class arena;
struct memory_domain;

// Where a buffer lies.
struct memory_place {
  mem_kind kind = mem_kind::host;
  bool is_handled = true;                 // false: such memory is never touched, refusal() says why
  bool is_pinned = false;                 // host memory that devices can access
  int device = -1;                        // of device memory, and of pinned memory
  const memory_domain* domain = nullptr;  // of everything but plain host memory
  // Of device memory: distinguishes its allocation from every other, earlier and later ones
  // included. 0: nothing does, so what is learned about it holds for this moment only.
  std::uint64_t buffer_id = 0;
};

// For people: one device, and the paths that data in its memory can take here.
struct way_report {
  std::string name;
  std::string why_not;  // empty: it can be used
};
struct device_report {
  std::string name;
  std::string what;  // or why it cannot be used
  std::vector<way_report> ways;
  std::string pci = {};  // its address; empty: not known
};

struct memory_domain {
  std::string_view name;
  std::string_view variable;  // the environment variable that disables it: "LCI_ATTR_USE_CUDA"
  // Empty when usable, else one sentence that says why not. May start the accelerator's runtime.
  std::string (*probe)();
  // The place of one address. Starts nothing, and costs little while no such memory can exist.
  memory_place (*find)(const void* address) noexcept;
  // "device memory of GPU 0"; for messages.
  std::string (*describe)(const void* address);
  // Why such memory is not handled, in one sentence.
  std::string (*refusal)(const void* address);
  // Writes the records for peers to `records`. Throws backend_error with the text of probe().
  std::unique_ptr<accelerator> (*start)(arena& records);
  // Allocates memory of a GPU, or host memory that all GPUs can access, made through that one;
  // aligned to 256 bytes. Throws backend_error: what probe() says, no such GPU, or no memory. Any
  // thread; may take milliseconds and wait for the GPU.
  void* (*allocate)(std::size_t size, int device, bool pinned);
  // Frees what allocate() returned. Throws argument_error for anything else.
  void (*release)(void* memory);
  // For networks; null where the domain has no such way. Returns a dma-buf over the pages that hold
  // [address, address + size); over_pcie: through the PCIe window that Data Direct needs. Throws
  // nothing but bad_alloc.
  network_export (*export_for_network)(const void* address, std::size_t size,
                                       bool over_pcie) = nullptr;
  // Whether a network may be given the address itself; prepares the memory for it.
  network_pointer (*ready_for_network)(const void* address) = nullptr;
  // The devices, once probe() has found the domain usable. Null: nothing to report.
  std::vector<device_report> (*report)() = nullptr;
  // The PCI address of the device that the calling thread has chosen; empty: none, or not known.
  // Starts nothing.
  std::string (*chosen_device)() = nullptr;
  // The PCI address of the device that memory was found on; empty: not known. Starts nothing.
  std::string (*pci_of)(int device) = nullptr;
  // Whether this process has a driver with a device, which find() asks. Starts nothing.
  bool (*has_driver)() = nullptr;
  // For kernels of the GPU that the calling thread has chosen, else of the first one. Throws
  // backend_error: what probe() says. Null: kernels reach no memory of this process.
  std::unique_ptr<kernel_memory> (*open_for_kernels)() = nullptr;
  // For buffers that processes share. Throws backend_error: what probe() says. Null: none are.
  std::unique_ptr<memory_sharing> (*open_sharing)() = nullptr;
};

// Defined by backends/providers.cpp, so that nothing below names a domain.
std::span<const memory_domain> memory_domains();

inline memory_place find_place(const void* address) noexcept {
  for (const memory_domain& domain : memory_domains()) {
    const memory_place found = domain.find(address);
    if (found.domain != nullptr) return found;
  }
  return {};
}

// Null: no domain in this process knows any memory but the host's.
inline const memory_domain* find_driver() {
  for (const memory_domain& domain : memory_domains()) {
    if (domain.has_driver != nullptr && domain.has_driver()) return &domain;
  }
  return nullptr;
}

// Of the first domain that knows one.
inline std::string find_chosen_device() {
  for (const memory_domain& domain : memory_domains()) {
    std::string found = domain.chosen_device != nullptr ? domain.chosen_device() : std::string();
    if (!found.empty()) return found;
  }
  return {};
}

}  // namespace lci::mem
