#include "lci/proto/engine/network_key.hpp"

#include <string>

#include "lci/base/log.hpp"
#include "lci/errors.hpp"
#include "lci/mem/memory_domain.hpp"

namespace lci::proto {

// Once per buffer that is registered, and for one that is not, once per message.
LCI_COLD static void say_off(attr_gpu_path_t way, const void* address, std::size_t size,
                             const std::string& why_not) {
  if (way != attr_gpu_path_t::direct &&
      !base::log::global().enabled(static_cast<int>(base::log::level::info)))
    return;
  const mem::memory_place place = mem::find_place(address);
  const std::string what =
      std::to_string(size) + " bytes of " +
      (place.domain != nullptr ? place.domain->describe(address) : "GPU memory");
  if (way == attr_gpu_path_t::direct)
    throw backend_error("gpu_path is direct, but " + what +
                        " cannot be registered with the network: " + why_not);
  base::log::info("proto", "%s are not registered with the network: %s", what.c_str(),
                  why_not.c_str());
}

network_key::network_key(net::fabric& fabric, const net::capabilities& can, attr_gpu_path_t way,
                         void* address, std::size_t size, mem::mem_kind kind)
    : fabric_(&fabric) {
  is_off_ = !may_register(can, way, kind);
  if (is_off_ || size == 0 || (kind == mem::mem_kind::host && !can.needs_keys)) return;
  std::string why_not;
  key_ = fabric.register_region(address, size, kind, why_not);
  is_off_ = !why_not.empty();
  if (is_off_) [[unlikely]]
    say_off(way, address, size, why_not);
}

}  // namespace lci::proto
