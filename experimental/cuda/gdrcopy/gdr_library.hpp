// gdrcopy: lets the processor read and write GPU memory over PCIe, through a mapping that the
// kernel module gdrdrv makes. Loaded when it is needed, as the driver is. No header of it is
// included: the types and signatures below are those of gdrapi.h, version 2. Callers: gdr_mappings,
// report. Threads: why_not() and the copies are shared; pin() to unpin() one at a time, for the
// library keeps a list without a lock. Always true: constructing one loads the library and opens
// the module, destroying it closes the module; the library stays loaded. Nothing is called while
// why_not() has something to say.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace lci::cuda {

// gdr_mh_t: a pinned range, handed over by value.
struct gdr_handle {
  unsigned long h = 0;
};

class gdr_library {
 public:
  static constexpr std::size_t PAGE = std::size_t{64} << 10;  // GPU_PAGE_SIZE: what is pinned
  static constexpr int VERSION = 2;                           // the major one that is known here

  // The first of the names that can be loaded; none: such GPUs have no gdrcopy.
  explicit gdr_library(std::span<const char* const> names);
  ~gdr_library();
  gdr_library(const gdr_library&) = delete;
  gdr_library& operator=(const gdr_library&) = delete;

  // Empty, or one sentence.
  const std::string& why_not() const noexcept { return why_not_; }

  // These answer 0 or an errno. Whole pages only, so that a mapping starts where its range does.
  int pin(std::uint64_t at, std::size_t size, gdr_handle& out) noexcept;
  int map(gdr_handle of, void** at, std::size_t size) noexcept;
  int unmap(gdr_handle of, void* at, std::size_t size) noexcept;
  int unpin(gdr_handle what) noexcept;
  // `there` lies in the mapping of `in`. What was written has left the processor on return, and may
  // still be on its way to the GPU.
  int write(gdr_handle in, void* there, const void* from, std::size_t size) const noexcept;
  int read(gdr_handle in, void* to, const void* there, std::size_t size) const noexcept;

 private:
  struct opened;  // gdr_t
  struct functions {
    void (*runtime_get_version)(int* major, int* minor) = nullptr;
    opened* (*open)() = nullptr;
    int (*close)(opened*) = nullptr;
    int (*pin_buffer)(opened*, unsigned long at, std::size_t size, std::uint64_t token,
                      std::uint32_t space, gdr_handle* out) = nullptr;
    int (*unpin_buffer)(opened*, gdr_handle) = nullptr;
    int (*map)(opened*, gdr_handle, void** at, std::size_t size) = nullptr;
    int (*unmap)(opened*, gdr_handle, void* at, std::size_t size) = nullptr;
    int (*copy_to_mapping)(gdr_handle, void* there, const void* from, std::size_t size) = nullptr;
    int (*copy_from_mapping)(gdr_handle, void* to, const void* there, std::size_t size) = nullptr;
  };
  void* load(std::span<const char* const> names);
  std::string resolve(void* library);
  std::string open();

  functions call_;
  opened* module_ = nullptr;
  std::string why_not_;
};

}  // namespace lci::cuda
