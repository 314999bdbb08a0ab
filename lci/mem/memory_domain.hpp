// What the library knows about an accelerator's memory before it handles any: which runtime made
// it, whether that can be used here, and whose a pointer is. Callers: runtime, when memory is
// registered; api, when a post says that it does not know its buffer, or that it is no host memory;
// lci_info. Threads: immutable; the functions are shared. The list is made in
// backends/providers.cpp.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "lci/mem/memory_kind.hpp"

namespace lci::mem {

// Where some bytes are.
struct memory_place {
  mem_kind kind = mem_kind::host;
  std::string what;     // "device memory of GPU 0"; empty for plain host memory
  std::string refusal;  // if not empty: such memory is never handled, in one sentence
};

struct memory_domain {
  std::string_view name;
  // Empty when usable, else one sentence that says why not. May start the accelerator's runtime.
  std::string (*probe)();
  // The place of one address. Starts nothing, and costs little while no such memory can exist.
  memory_place (*find)(const void* address);
};

// Defined by backends/providers.cpp, so that nothing below names a domain.
std::span<const memory_domain> memory_domains();

inline memory_place find_place(const void* address) {
  for (const memory_domain& domain : memory_domains()) {
    memory_place found = domain.find(address);
    if (found.kind != mem_kind::host || !found.refusal.empty()) return found;
  }
  return {};
}

}  // namespace lci::mem
