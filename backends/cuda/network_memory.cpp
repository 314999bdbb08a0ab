#include "backends/cuda/network_memory.hpp"

#include <unistd.h>

#include "backends/cuda/errors.hpp"
#include "lci/errors.hpp"

namespace lci::cuda {
namespace {

// The first with a flag for mappings through PCIe.
constexpr int PCIE_FLAG_SINCE = 12080;

// Why no network can use such memory, whichever way it is registered.
std::string why_not_for_networks(const abi::functions& call, const allocation& what) {
  std::string why_not = why_unusable(what);
  if (!why_not.empty()) return why_not;
  if (what.memory() == mem::mem_kind::host)
    return std::string(name_of(what.kind)) + " memory is registered as host memory";
  if (call.pointer_get_attribute == nullptr) return "";
  // Zeroed and larger than a bool of any driver, so it does not matter how many bytes it writes. A
  // driver that does not know the question has no such memory either.
  unsigned is_capable = 0;
  const abi::result answer = call.pointer_get_attribute(
      &is_capable, abi::pointer_attribute::is_gpu_direct_rdma_capable, what.base);
  if (answer != abi::result::success || is_capable != 0) return "";
  return std::string(name_of(what.kind)) +
         " memory that was not made for GPUDirect RDMA (gpuDirectRDMACapable at its creation)";
}

// Synchronous copies of the program on the allocation wait from now on.
bool make_synchronous(const abi::functions& call, const allocation& what) {
  const unsigned on = 1;
  return call.pointer_set_attribute(&on, abi::pointer_attribute::sync_memops, what.base) ==
         abi::result::success;
}

std::string range_text(const allocation& what, abi::device_ptr at, std::size_t size) {
  return std::to_string(size) + " bytes at offset " + std::to_string(at - what.base) + " of " +
         std::to_string(what.size) + " of " + name_of(what.kind) + " memory on GPU " +
         std::to_string(what.ordinal);
}

// The pages around the buffer. False: they are not all of this allocation.
bool cover(const allocation& what, abi::device_ptr at, std::size_t size,
           mem::network_export& to) noexcept {
  const auto page = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  to.base = at / page * page;
  to.offset = at - to.base;
  if (size == 0 || !what.contains(at, size)) return false;
  to.size = (to.offset + size + page - 1) / page * page;
  return what.contains(to.base, to.size);
}

// Empty, or why no buffer of this GPU has a dma-buf of that sort.
std::string why_none_at_all(const gpu& g, const driver& d, bool pcie) {
  const std::string on = "GPU " + std::to_string(g.facts().ordinal);
  if (!g.facts().dma_buf) return on + " or its driver has no dma-buf";
  if (!pcie || d.version() >= PCIE_FLAG_SINCE) return "";
  return on + ": the driver, of CUDA " + version_text(d.version()) +
         ", maps no dma-buf through PCIe; that came with CUDA " + version_text(PCIE_FLAG_SINCE);
}

void ask(gpu& g, const allocation& what, bool pcie, const std::string& range,
         mem::network_export& to) {
  const abi::functions& call = g.call();
  const context_scope scope(call, what.context != nullptr ? what.context : g.context());
  int fd = -1;
  failure error{scope.entered(), "cuCtxPushCurrent"};
  if (!error) {
    error = {call.mem_get_handle_for_address_range(&fd, to.base, to.size,
                                                   abi::range_handle_type::dma_buf_fd,
                                                   pcie ? abi::DMA_BUF_MAPPING_PCIE : 0),
             "cuMemGetHandleForAddressRange"};
  }
  if (error) {
    to.error = static_cast<int>(error.code);
    to.why_not = text_of(call, error, range);
    return;
  }
  to.fd.reset(fd);
  to.is_synchronous = make_synchronous(call, what);
}

}  // namespace

mem::network_export export_dma_buf(gpu_list& gpus, const allocation& what, abi::device_ptr at,
                                   std::size_t size, bool pcie) {
  mem::network_export result;
  result.id = {what.id.buffer_id, what.id.block_id};
  try {
    gpus.get_driver().require();
    result.why_not = why_not_for_networks(gpus.get_driver().call(), what);
    if (result.why_not.empty() && what.kind == allocation_kind::pool)
      result.why_not = "stream-ordered memory (cudaMallocAsync) has no dma-buf";
    if (!result.why_not.empty()) return result;
    gpu& g = gpus.at(what.ordinal);
    result.why_not = why_none_at_all(g, gpus.get_driver(), pcie);
    result.is_final = !result.why_not.empty();
    if (result.is_final) return result;
    const std::string range = range_text(what, at, size);
    if (cover(what, at, size, result)) {
      ask(g, what, pcie, range, result);
    } else {
      result.why_not =
          "a dma-buf covers whole pages, and those around this buffer are not all of its "
          "allocation: " +
          range;
    }
  } catch (const backend_error& error) {
    result.why_not = error.what();
  }
  return result;
}

mem::network_pointer ready_pointer(gpu_list& gpus, const allocation& what) {
  mem::network_pointer result;
  try {
    gpus.get_driver().require();
    const abi::functions& call = gpus.get_driver().call();
    result.why_not = why_not_for_networks(call, what);
    if (!result.why_not.empty()) return result;
    gpu& g = gpus.at(what.ordinal);
    result.is_final = !g.facts().direct_rdma;
    if (result.is_final) {
      result.why_not = "GPU " + std::to_string(what.ordinal) + " has no GPUDirect RDMA";
      return result;
    }
    const context_scope scope(call, what.context != nullptr ? what.context : g.context());
    result.is_synchronous = scope.entered() == abi::result::success && make_synchronous(call, what);
  } catch (const backend_error& error) {
    result.why_not = error.what();
  }
  return result;
}

}  // namespace lci::cuda
