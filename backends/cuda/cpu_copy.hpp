// The seam to what lets the processor copy a few bytes of GPU memory without the GPU: gdrcopy,
// which is in experimental/cuda/gdrcopy. Callers: accelerator and report. Threads: copies are
// shared, the rest any. Always true: a caller that asks for it where it is not usable gets a
// backend_error.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "backends/cuda/gpu.hpp"
#include "backends/cuda/pointer.hpp"
#include "lci/types.hpp"

namespace lci::cuda {

class cpu_copy {
 public:
  virtual ~cpu_copy() = default;
  // The range lies in `of`, an allocation as it is now. True: the bytes are there, for any code
  // that looks afterwards. False: not this way; the destination is as before, or partly written.
  virtual bool write(const allocation& of, abi::device_ptr to, const void* from,
                     std::size_t size) noexcept = 0;
  virtual bool read(const allocation& of, void* to, abi::device_ptr from,
                    std::size_t size) noexcept = 0;
};

// libraries: the names to try. Null: not used here. wanted: not off; with `on`, throws
// backend_error instead.
std::unique_ptr<cpu_copy> make_cpu_copy(gpu_list& gpus, std::span<const char* const> libraries,
                                        attr_gpu_gdrcopy_t wanted);
// For people: empty where it would be used, else one sentence.
std::string why_no_cpu_copy(std::span<const char* const> libraries);

}  // namespace lci::cuda
