#include <dlfcn.h>

#include "tests/support/fake_ofi/fake_ofi.hpp"

namespace lci::test {

fake_ofi* load_fake_ofi(const std::string& path) {
  const char* const name = path.empty() ? "libfabric.so.1" : path.c_str();
  void* const library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return nullptr;
  const auto get = reinterpret_cast<fake_ofi* (*)()>(dlsym(library, "lci_fake_ofi"));
  return get == nullptr ? nullptr : get();
}

}  // namespace lci::test
