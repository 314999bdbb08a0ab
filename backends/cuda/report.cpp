#include "backends/cuda/report.hpp"

#include <array>
#include <string>

#include "backends/cuda/cpu_copy.hpp"
#include "backends/cuda/gpu.hpp"
#include "backends/cuda/resident_image.hpp"
#include "lci/errors.hpp"

namespace lci::cuda {
namespace {

std::string unless(bool is_there, const char* why_not) { return is_there ? "" : why_not; }

std::string address_of(const abi::functions& call, abi::device gpu) {
  std::array<char, 32> text{};
  if (call.device_get_pci_bus_id(text.data(), text.size() - 1, gpu) != abi::result::success)
    return {};
  return text.data();
}

std::vector<mem::way_report> ways_of(gpu_list& gpus, gpu& of, int count,
                                     const std::string& why_no_gdrcopy) {
  const gpu_facts& facts = of.facts();
  std::vector<mem::way_report> ways;
  for (int i = 0; i < count; ++i) {
    if (i == facts.ordinal) {
      ways.push_back({"directly, on this GPU", ""});
    } else {
      ways.push_back({"directly to GPU " + std::to_string(i), of.why_out_of_reach(gpus.at(i))});
    }
  }
  ways.push_back({"VMM memory of other processes",
                  unless(facts.vmm_descriptors, "this GPU passes no memory on as descriptors")});
  ways.push_back({"the same by fabric handles, if IMEX lets this process",
                  unless(facts.fabric_handles, "this GPU or driver has none")});
  ways.push_back({"notification by the GPU itself",
                  unless(facts.stream_writes, "no 64-bit cuStreamWriteValue (CUDA 11.7)")});
  ways.push_back({"posts and waits in streams",
                  unless(facts.stream_stores, "no cuStreamBatchMemOp (CUDA 11.7)")});
  ways.push_back(
      {"resident copy kernel",
       unless(!resident_image().empty(), "this library has no device code (-DLCI_USE_CUDA=ON)")});
  ways.push_back({"small copies by the processor (gdrcopy)",
                  facts.direct_rdma ? why_no_gdrcopy : "this GPU has no GPUDirect RDMA"});
  ways.push_back({"dma-buf for networks", unless(facts.dma_buf, "this GPU or driver has none")});
  ways.push_back({"through host memory", ""});
  return ways;
}

}  // namespace

std::vector<mem::device_report> report_gpus(driver& d) {
  std::vector<mem::device_report> all;
  if (!d.why_not().empty()) return all;
  gpu_list gpus(d);
  const std::string why_no_gdrcopy = why_no_cpu_copy(d.mapping_libraries());
  for (int i = 0; i < d.gpu_count(); ++i) {
    const std::string name = "GPU " + std::to_string(i);
    try {
      gpu& one = gpus.at(i);
      all.push_back({name, one.facts().name + ", " + one.facts().pci,
                     ways_of(gpus, one, d.gpu_count(), why_no_gdrcopy), one.facts().pci});
    } catch (const backend_error& error) {
      all.push_back({name, error.what(), {}, {}});
    }
  }
  return all;
}

std::string address_of_current(driver& d) {
  const abi::functions* const call = d.in_process();
  abi::device current = -1;
  if (call == nullptr || call->ctx_get_device(&current) != abi::result::success) return {};
  return address_of(*call, current);
}

std::string address_of(driver& d, int ordinal) {
  const abi::functions* const call = d.in_process();
  abi::device gpu = -1;
  if (call == nullptr || call->device_get(&gpu, ordinal) != abi::result::success) return {};
  return address_of(*call, gpu);
}

}  // namespace lci::cuda
