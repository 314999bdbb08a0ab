#include "experimental/cuda/gdrcopy/gdr_library.hpp"

#include <dlfcn.h>

#include <cerrno>
#include <cstring>

namespace lci::cuda {
namespace {

template <class Function>
bool find(void* library, const char* name, Function& out) noexcept {
  out = reinterpret_cast<Function>(dlsym(library, name));
  return out != nullptr;
}

}  // namespace

gdr_library::gdr_library(std::span<const char* const> names) {
  void* const library = load(names);
  if (library == nullptr) return;
  why_not_ = resolve(library);
  if (why_not_.empty()) why_not_ = open();
}

gdr_library::~gdr_library() {
  if (module_ != nullptr) call_.close(module_);
}

// Null: why_not_ says why. The first name is the one that people know.
void* gdr_library::load(std::span<const char* const> names) {
  for (const char* const name : names) {
    if (void* const library = dlopen(name, RTLD_NOW | RTLD_LOCAL); library != nullptr)
      return library;
    const char* const reason = dlerror();
    if (why_not_.empty())
      why_not_ =
          std::string("gdrcopy cannot be loaded: ") + (reason == nullptr ? "no reason" : reason);
  }
  if (names.empty()) why_not_ = "there is no gdrcopy for these GPUs";
  return nullptr;
}

std::string gdr_library::resolve(void* library) {
  why_not_.clear();
  const char* missing = nullptr;
  const auto need = [&](const char* name, auto& out) {
    if (!find(library, name, out) && missing == nullptr) missing = name;
  };
  need("gdr_runtime_get_version", call_.runtime_get_version);
  need("gdr_open", call_.open);
  need("gdr_close", call_.close);
  need("gdr_pin_buffer", call_.pin_buffer);
  need("gdr_unpin_buffer", call_.unpin_buffer);
  need("gdr_map", call_.map);
  need("gdr_unmap", call_.unmap);
  need("gdr_copy_to_mapping", call_.copy_to_mapping);
  need("gdr_copy_from_mapping", call_.copy_from_mapping);
  if (missing != nullptr)
    return std::string("this gdrcopy has no ") + missing + ", so it is older than version 2.0";
  int major = 0, minor = 0;
  call_.runtime_get_version(&major, &minor);
  if (major == VERSION) return "";
  // Signatures have changed between major versions.
  return "gdrcopy is of version " + std::to_string(major) + "." + std::to_string(minor) +
         ", and 2 is the one that is known";
}

std::string gdr_library::open() {
  errno = 0;
  module_ = call_.open();
  if (module_ != nullptr) return "";
  return std::string("gdrcopy does not open its kernel module (is gdrdrv loaded?)") +
         (errno == 0 ? "" : std::string(": ") + std::strerror(errno));
}

int gdr_library::pin(std::uint64_t at, std::size_t size, gdr_handle& out) noexcept {
  // Token and address space are of an older interface of the driver and unused.
  return call_.pin_buffer(module_, at, size, 0, 0, &out);
}

int gdr_library::map(gdr_handle of, void** at, std::size_t size) noexcept {
  return call_.map(module_, of, at, size);
}

int gdr_library::unmap(gdr_handle of, void* at, std::size_t size) noexcept {
  return call_.unmap(module_, of, at, size);
}

int gdr_library::unpin(gdr_handle what) noexcept { return call_.unpin_buffer(module_, what); }

int gdr_library::write(gdr_handle in, void* there, const void* from,
                       std::size_t size) const noexcept {
  return call_.copy_to_mapping(in, there, from, size);
}

int gdr_library::read(gdr_handle in, void* to, const void* there, std::size_t size) const noexcept {
  return call_.copy_from_mapping(in, to, there, size);
}

}  // namespace lci::cuda
