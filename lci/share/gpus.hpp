// The one accelerator whose memory buffers share: of the first domain that can be used here.
// Callers: the rest of this folder. Threads: any.
// Always true: nothing is started before the first question; what was started stays until the
// process ends, so that buffers in static objects can be destroyed.
#pragma once

#include <memory>
#include <string>

#include "lci/mem/memory_domain.hpp"

namespace lci::share {

struct gpu_side {
  const mem::memory_domain* domain = nullptr;
  std::unique_ptr<mem::memory_sharing> sharing;
};

// Null: `why_not` is a sentence, of each domain.
const gpu_side* find_gpus(std::string& why_not);
// Throws backend_error.
const gpu_side& need_gpus();

}  // namespace lci::share
