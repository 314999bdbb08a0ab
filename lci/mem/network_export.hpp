// What an accelerator says about its memory to a network that wants to read and write it; neither
// knows the other. Made by a memory_domain, used by registration_ladder.
// Threads: plain data. Always true: a descriptor is closed when its owner ends, so the code that
// registers it must have done so by then.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "lci/base/descriptor.hpp"

namespace lci::mem {

// Distinguishes an allocation from every other of this process, earlier ones at the same address
// included.
struct allocation_identity {
  std::uint64_t buffer_id = 0;
  std::uint64_t block_id = 0;  // of what is mapped there now, for memory that can be mapped anew
  bool operator==(const allocation_identity&) const = default;
};

// A dma-buf over a range.
struct network_export {
  base::descriptor fd;     // close it once registered: the registration keeps its own reference
  std::uint64_t base = 0;  // page aligned; the buffer starts `offset` bytes after it
  std::size_t size = 0;    // whole pages
  std::size_t offset = 0;
  allocation_identity id;  // what a cache compares before it believes an address
  std::string why_not;     // not empty: no dma-buf, for this reason
  int error = 0;           // the accelerator's code for it; 0: it was not asked
  bool is_final = false;   // why_not holds for every buffer of this device
  // Synchronous copies of the program on this allocation return only when they are done, so that a
  // network never sends bytes that are still being written. False: the accelerator did not promise
  // it.
  bool is_synchronous = false;
};

// Whether a network may be given the address itself, through a kernel module that knows both.
struct network_pointer {
  std::string why_not;  // not empty: it may not, for this reason
  int error = 0;        // as above
  bool is_final = false;
  bool is_synchronous = false;
};

}  // namespace lci::mem
