#include "lci/api/buffer_kind.hpp"

#include <cstdio>
#include <string>

#include "lci/base/log.hpp"
#include "lci/errors.hpp"
#include "lci/runtime/global.hpp"
#include "lci/runtime/runtime.hpp"

namespace lci::api {

// For a buffer that was declared to be GPU memory and is not.
static LCI_COLD void check_there_is_no_driver(const char* name, const void* buffer) {
  if (const mem::memory_domain* const driver = mem::find_driver(); driver != nullptr) {
    char address[2 * sizeof(void*) + 3];
    std::snprintf(address, sizeof(address), "%p", buffer);
    throw argument_error(std::string(name) + " " + address + " is no GPU memory, as " +
                         std::string(driver->name) +
                         " says, but the post says MR_DEVICE; legal for it are MR_HOST and "
                         "MR_UNKNOWN");
  }
  // Relaxed: it guards nothing but the warning.
  if (!runtime::global().has_said_no_gpu.exchange(true, std::memory_order_relaxed))
    base::log::warn("api",
                    "a post says MR_DEVICE in a process that uses no GPU: treated as host memory; "
                    "said once");
}

mem::memory_place find_place(const char* name, const void* buffer, std::size_t size, mr_t mr,
                             proto::shared_state& shared) {
  const mem::memory_place place = place_of(shared, buffer);
  const bool is_said_to_be = mr.p_impl == MR_DEVICE.p_impl;
  if (is_said_to_be && place.kind == mem::mem_kind::host && size != 0) [[unlikely]]
    check_there_is_no_driver(name, buffer);
  return place;
}

void check_pointer(const char* name, const void* buffer, std::size_t size, mr_t mr) {
  if (mr.p_impl != nullptr || size == 0) return;
  const mem::memory_place place = mem::find_place(buffer);
  if (!place.is_handled) throw argument_error(place.domain->refusal(buffer));
  if (place.kind != mem::mem_kind::host)
    throw argument_error(std::string(name) + " is " + place.domain->describe(buffer) +
                         ", but the post does not say so: add .mr(MR_DEVICE), or the mr of its "
                         "registration");
}

}  // namespace lci::api
