#include "lci/api/buffers.hpp"

#include <cstdio>
#include <functional>
#include <string>

#include "lci/collective.hpp"
#include "lci/errors.hpp"
#include "lci/mem/packet_pool.hpp"

namespace lci {
namespace api {

namespace {

std::string text_of(const void* address) {
  char text[32];
  std::snprintf(text, sizeof text, "%p", address);
  return text;
}

std::string size_at(const char* name, const void* buffer, std::size_t size) {
  return "size " + std::to_string(size) + " with " + name + " at " + text_of(buffer);
}

}  // namespace

void throw_null_buffer(const char* name, std::size_t size) {
  throw argument_error(std::string(name) + " is null but size is " + std::to_string(size));
}

void throw_out_of_mr(const char* name, const void* buffer, std::size_t size, const mr_impl_t& mr) {
  const auto* const from = static_cast<const std::byte*>(mr.address);
  const auto* const at = static_cast<const std::byte*>(buffer);
  const bool is_inside = !std::less<>()(at, from) && !std::less<>()(from + mr.size, at);
  const std::size_t most = is_inside ? static_cast<std::size_t>(from + mr.size - at) : 0;
  throw argument_error(size_at(name, buffer, size) + " is not inside mr, which has " +
                       std::to_string(mr.size) + " bytes at " + text_of(mr.address) + "; at most " +
                       std::to_string(most) + " are legal there");
}

// A pointer into the middle of a packet does not tell where the packet ends, only where all packet
// memory ends.
void check_packet_room(const char* name, const void* buffer, std::size_t size,
                       const mem::arena& arena) {
  void* const at_start = const_cast<void*>(buffer);
  const mem::packet* const packet = mem::packet_pool::held(arena, at_start);
  if (packet == nullptr && mem::packet_pool::is_given_away(arena, at_start))
    throw argument_error(std::string(name) + " " + text_of(buffer) +
                         " is a packet that the program does not have any more: it was posted or "
                         "put back already; expected one from get_upacket() or from a message");
  if (packet != nullptr && size > packet->capacity)
    throw argument_error(size_at(name, buffer, size) + " is more than the packet there has, " +
                         std::to_string(packet->capacity) + " bytes");
  if (packet != nullptr || size == 0 || !arena.contains(buffer)) return;
  const std::uint64_t at = arena.offset_of(buffer), end = arena.committed();
  const std::size_t most = at < end ? end - at : 0;
  if (size > most)
    throw argument_error(size_at(name, buffer, size) + " begins in a packet and reaches beyond " +
                         "all packets, at most " + std::to_string(most) + " bytes from there");
}

void check_space(const char* name, const void* buffer, std::size_t size) {
  const std::size_t most = base::most_bytes_at(buffer);
  if (size <= most || size == 0) return;
  throw argument_error(size_at(name, buffer, size) +
                       " reaches beyond the address space, in which at most " +
                       std::to_string(most) + " bytes can be there");
}

}  // namespace api

namespace detail {

void check_memory(const char* operation, const char* argument, const void* buffer, size_t size) {
  if (base::is_surely_in_space(buffer, size)) return;
  api::check_space((std::string(operation) + ": " + argument).c_str(), buffer, size);
}

}  // namespace detail
}  // namespace lci
