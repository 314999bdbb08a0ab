// Where a buffer is of which a post names no registration: the host's memory, as long as nothing
// else is said, or what MR_DEVICE and MR_UNKNOWN leave to be found out. Callers: posts, raw ones
// too. Threads: any. Errors: argument_error.
#pragma once

#include <cstddef>

#include "lci/handles.hpp"
#include "lci/mem/memory_domain.hpp"
#include "lci/proto/device_queues.hpp"

namespace lci::api {

// `name`: the argument's, for people. `mr`: MR_DEVICE or MR_UNKNOWN. MR_DEVICE for host memory:
// where there is no GPU, that is what it means; where a driver knows better, throws.
mem::memory_place find_place(const char* name, const void* buffer, std::size_t size, mr_t mr,
                             proto::shared_state& shared);

// The caller promises host memory, unless it gives an mr: throws if it is a GPU's. Attribute
// check_pointers.
LCI_COLD void check_pointer(const char* name, const void* buffer, std::size_t size, mr_t mr);

}  // namespace lci::api
