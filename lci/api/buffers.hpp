// What every operation checks about the memory that it is given, before anything is changed: that
// there is some, that the address space has room for its size, and that it lies inside the
// registration that the caller names, or inside the packet in which it begins. Threads: any.
// Errors: argument_error with the size and how many bytes there are.
#pragma once

#include <cstddef>

#include "lci/base/address_space.hpp"
#include "lci/base/type_stable.hpp"
#include "lci/mem/arena.hpp"
#include "lci/runtime/runtime.hpp"

namespace lci::api {

// `name`: the argument's, for people.
[[noreturn]] LCI_COLD void throw_null_buffer(const char* name, std::size_t size);
[[noreturn]] LCI_COLD void throw_out_of_mr(const char* name, const void* buffer, std::size_t size,
                                           const mr_impl_t& mr);
// Decides where base::is_surely_in_space() cannot.
LCI_COLD void check_space(const char* name, const void* buffer, std::size_t size);

// Decides where check_room() cannot. Also throws argument_error for a packet that the program no
// longer has.
LCI_COLD void check_packet_room(const char* name, const void* buffer, std::size_t size,
                                const mem::arena& arena);

// A buffer that begins in a packet must end in it.
inline void check_room(const char* name, const void* buffer, std::size_t size,
                       const mem::arena& arena) {
  if (arena.packet_window().covers(buffer)) [[unlikely]]
    check_packet_room(name, buffer, size, arena);
}

inline void check_buffer(const char* name, const void* buffer, std::size_t size) {
  if (buffer == nullptr && size != 0) [[unlikely]]
    throw_null_buffer(name, size);
  if (!base::is_surely_in_space(buffer, size)) [[unlikely]]
    check_space(name, buffer, size);
}

// A size of 0 is legal at any address. An address before the region wraps round to a huge offset.
inline void check_in_mr(const char* name, const void* buffer, std::size_t size,
                        const mr_impl_t& mr) {
  const std::size_t at =
      reinterpret_cast<std::uintptr_t>(buffer) - reinterpret_cast<std::uintptr_t>(mr.address);
  if ((at > mr.size || size > mr.size - at) && size != 0) [[unlikely]]
    throw_out_of_mr(name, buffer, size, mr);
}

// Both; `mr` may be one of the values that name no region.
inline void check_buffer(const char* name, const void* buffer, std::size_t size, mr_t mr) {
  if (!mr.is_empty()) [[unlikely]]
    check_in_mr(name, buffer, size, *base::check_live(mr.p_impl, "mr"));
  check_buffer(name, buffer, size);
}

}  // namespace lci::api
