// CUDA as a memory domain: the seam through which everything above knows that it exists. Threads:
// shared. Always true: asking what a pointer is never starts CUDA.
#pragma once

#include "lci/mem/memory_domain.hpp"

namespace lci::cuda {

extern const mem::memory_domain DOMAIN;

}  // namespace lci::cuda
