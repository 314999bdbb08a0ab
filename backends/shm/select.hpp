// Is shared memory usable here, and how to open it. Threads: any.
#pragma once

#include "lci/net/provider.hpp"

namespace lci::shm {

extern const net::provider PROVIDER;

}  // namespace lci::shm
