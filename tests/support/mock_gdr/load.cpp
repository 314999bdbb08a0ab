#include <dlfcn.h>

#include "tests/support/mock_gdr/mock_gdr.hpp"

namespace lci::test {

mock_gdr* load_mock_gdr(const std::string& path) {
  void* const library = path.empty() ? dlopen("libgdrapi.so.2", RTLD_NOW | RTLD_NOLOAD)
                                     : dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return nullptr;
  const auto get = reinterpret_cast<mock_gdr* (*)()>(dlsym(library, "lci_mock_gdr"));
  return get == nullptr ? nullptr : get();
}

}  // namespace lci::test
