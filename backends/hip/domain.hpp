// HIP as a memory domain. Threads: shared. Always true: a question about a pointer loads nothing;
// but HIP itself starts at the first question in a program that has loaded it.
#pragma once

#include "lci/mem/memory_domain.hpp"

namespace lci::hip {

extern const mem::memory_domain DOMAIN;

}  // namespace lci::hip
