// In place of gdrcopy where the build has none (LCI_EXPERIMENTAL).
#include "backends/cuda/cpu_copy.hpp"
#include "lci/base/experimental.hpp"
#include "lci/errors.hpp"

namespace lci::cuda {

std::unique_ptr<cpu_copy> make_cpu_copy(gpu_list&, std::span<const char* const>,
                                        attr_gpu_gdrcopy_t wanted) {
  if (wanted == attr_gpu_gdrcopy_t::on)
    throw backend_error("cuda: gpu_gdrcopy is on, but " + base::not_built("gdrcopy"));
  return nullptr;
}

std::string why_no_cpu_copy(std::span<const char* const>) { return base::not_built("gdrcopy"); }

}  // namespace lci::cuda
