// The kind of a buffer for which a post names no registration: host memory unless the post says
// otherwise, and with MR_DEVICE or MR_UNKNOWN whatever is found. Callers: posts, raw ones too.
// Threads: any. Errors: argument_error.
#pragma once

#include <cstddef>

#include "lci/handles.hpp"
#include "lci/mem/memory_domain.hpp"
#include "lci/proto/device_queues.hpp"

namespace lci::api {

// `name`: the argument's, for people. `mr`: MR_DEVICE or MR_UNKNOWN. MR_DEVICE for host memory:
// accepted as host memory in a process without a GPU; throws if there is a driver, which knows
// better.
mem::memory_place find_place(const char* name, const void* buffer, std::size_t size, mr_t mr,
                             proto::shared_state& shared);

// Without an mr the caller promises host memory: throws if it is a GPU's. For attribute
// check_pointers.
LCI_COLD void check_pointer(const char* name, const void* buffer, std::size_t size, mr_t mr);

}  // namespace lci::api
