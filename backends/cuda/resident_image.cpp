#include "backends/cuda/resident_image.hpp"

#include "lci/version.hpp"

#ifdef LCI_USE_CUDA
extern const unsigned char lci_resident_image[];
extern const unsigned long lci_resident_image_size;
#endif

namespace lci::cuda {

std::span<const unsigned char> resident_image() noexcept {
#ifdef LCI_USE_CUDA
  return {lci_resident_image, lci_resident_image_size};
#else
  return {};
#endif
}

}  // namespace lci::cuda
