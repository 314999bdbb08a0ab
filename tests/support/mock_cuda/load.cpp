#include <dlfcn.h>

#include "tests/support/mock_cuda/mock_cuda.hpp"

namespace lci::test {

mock_cuda* load_mock_cuda(const std::string& path) {
  const char* const name = path.empty() ? "libcuda.so.1" : path.c_str();
  void* const library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return nullptr;
  const auto get = reinterpret_cast<mock_cuda* (*)()>(dlsym(library, "lci_mock_cuda"));
  return get == nullptr ? nullptr : get();
}

}  // namespace lci::test
