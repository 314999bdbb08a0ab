#include "backends/cuda/vmm_mapping.hpp"

namespace lci::cuda {
namespace {

failure let_in(const abi::functions& call, int ordinal, std::size_t size,
               abi::device_ptr base) noexcept {
  const abi::access_desc who{{abi::location_type::gpu, ordinal}, abi::access_flags::read_write};
  return {call.mem_set_access(base, size, &who, 1), "cuMemSetAccess"};
}

// One by one: a GPU that the driver refuses takes no access from the others, and the memory stays
// good for its own.
void let_peers_in(const abi::functions& call, int ordinal, std::size_t size,
                  abi::device_ptr base) noexcept {
  int count = 0;
  abi::device own = -1;
  if (call.device_get_count(&count) != abi::result::success ||
      call.device_get(&own, ordinal) != abi::result::success)
    return;
  for (int i = 0; i < count; ++i) {
    abi::device peer = -1;
    int can = 0;
    if (i != ordinal && call.device_get(&peer, i) == abi::result::success &&
        call.device_can_access_peer(&can, peer, own) == abi::result::success && can != 0)
      (void)let_in(call, i, size, base);
  }
}

}  // namespace

failure map_handle(const abi::functions& call, abi::allocation_handle handle, int ordinal,
                   std::size_t size, vmm_access who, abi::device_ptr& base) noexcept {
  failure error{call.mem_address_reserve(&base, size, 0, 0, 0), "cuMemAddressReserve"};
  if (error) return error;
  error = {call.mem_map(base, size, 0, handle, 0), "cuMemMap"};
  if (!error) {
    error = let_in(call, ordinal, size, base);
    if (error) log_teardown(call, call.mem_unmap(base, size), "cuMemUnmap");
  }
  if (error)
    log_teardown(call, call.mem_address_free(base, size), "cuMemAddressFree");
  else if (who == vmm_access::every_gpu)
    let_peers_in(call, ordinal, size, base);
  return error;
}

void unmap_handle(const abi::functions& call, abi::device_ptr base, std::size_t size) noexcept {
  log_teardown(call, call.mem_unmap(base, size), "cuMemUnmap");
  log_teardown(call, call.mem_address_free(base, size), "cuMemAddressFree");
}

failure describe_shareable(const abi::functions& call, int ordinal, abi::handle_type as,
                           abi::allocation_prop& prop, std::size_t& unit) noexcept {
  prop = {};
  prop.type = abi::allocation_type::pinned;
  prop.requested_handle_types = as;
  prop.where = {abi::location_type::gpu, ordinal};
  return {call.mem_get_allocation_granularity(&unit, &prop, abi::granularity::minimum),
          "cuMemGetAllocationGranularity"};
}

}  // namespace lci::cuda
