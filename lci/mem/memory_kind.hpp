// Where bytes live. A pointer travels with its kind until the kind is known; no code dereferences
// it before.
#pragma once

#include <cstdint>

namespace lci::mem {

enum class mem_kind : std::uint8_t {
  host,    // the processor may read and write it
  device,  // GPU memory: only memory domains touch it
  unknown  // to be found out before use
};

}  // namespace lci::mem
