#include "backends/cuda/vmm_mapping.hpp"

namespace lci::cuda {

failure map_handle(const abi::functions& call, abi::allocation_handle handle, int ordinal,
                   std::size_t size, abi::device_ptr& base) noexcept {
  failure error{call.mem_address_reserve(&base, size, 0, 0, 0), "cuMemAddressReserve"};
  if (error) return error;
  error = {call.mem_map(base, size, 0, handle, 0), "cuMemMap"};
  if (!error) {
    const abi::access_desc mine{{abi::location_type::gpu, ordinal}, abi::access_flags::read_write};
    error = {call.mem_set_access(base, size, &mine, 1), "cuMemSetAccess"};
    if (error) log_teardown(call, call.mem_unmap(base, size), "cuMemUnmap");
  }
  if (error) log_teardown(call, call.mem_address_free(base, size), "cuMemAddressFree");
  return error;
}

void unmap_handle(const abi::functions& call, abi::device_ptr base, std::size_t size) noexcept {
  log_teardown(call, call.mem_unmap(base, size), "cuMemUnmap");
  log_teardown(call, call.mem_address_free(base, size), "cuMemAddressFree");
}

failure describe_shareable(const abi::functions& call, int ordinal, abi::allocation_prop& prop,
                           std::size_t& unit) noexcept {
  prop = {};
  prop.type = abi::allocation_type::pinned;
  prop.requested_handle_types = abi::handle_type::posix_file_descriptor;
  prop.where = {abi::location_type::gpu, ordinal};
  return {call.mem_get_allocation_granularity(&unit, &prop, abi::granularity::minimum),
          "cuMemGetAllocationGranularity"};
}

}  // namespace lci::cuda
