// In place of gdrcopy where the build has none (LCI_EXPERIMENTAL).
#include "backends/cuda/by_hand.hpp"
#include "lci/base/experimental.hpp"
#include "lci/errors.hpp"

namespace lci::cuda {

std::unique_ptr<by_hand> make_by_hand(gpu_list&, std::span<const char* const>,
                                      attr_gpu_gdrcopy_t wanted) {
  if (wanted == attr_gpu_gdrcopy_t::on)
    throw backend_error("cuda: gpu_gdrcopy is on, but " + base::not_built("gdrcopy"));
  return nullptr;
}

std::string why_not_by_hand(std::span<const char* const>) { return base::not_built("gdrcopy"); }

}  // namespace lci::cuda
