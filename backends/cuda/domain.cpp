#include "backends/cuda/domain.hpp"

#include "backends/cuda/driver.hpp"
#include "backends/cuda/errors.hpp"
#include "backends/cuda/pointer_cache.hpp"

namespace lci::cuda {
namespace {

// One for the process, as CUDA itself is. Made at the first question, which costs nothing yet.
struct process_wide {
  driver d{options_from_environment()};
  pointer_cache pointers{d};
};
process_wide& here() {
  static process_wide one;
  return one;
}

std::string probe() { return here().d.why_not(); }

mem::memory_place find(const void* address) {
  const classified found = here().pointers.find(address);
  mem::memory_place place;
  if (found.error) {
    place.refusal = text_of(*here().d.in_process(), found.error, "the pointer");
    return place;
  }
  place.kind = found.what.memory();
  if (found.what.kind == allocation_kind::host) return place;
  place.what = std::string(name_of(found.what.kind)) + " memory of GPU " +
               std::to_string(found.what.ordinal);
  place.refusal = why_unusable(found.what);
  return place;
}

}  // namespace

const mem::memory_domain DOMAIN{"cuda", &probe, &find};

}  // namespace lci::cuda
