#include <dlfcn.h>

#include "tests/support/fake_ibv/fake_ibv.hpp"

namespace lci::test {

fake_ibv* load_fake_ibv(const std::string& path) {
  const char* const name = path.empty() ? "libibverbs.so.1" : path.c_str();
  void* const library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return nullptr;
  const auto get = reinterpret_cast<fake_ibv* (*)()>(dlsym(library, "lci_fake_ibv"));
  return get == nullptr ? nullptr : get();
}

}  // namespace lci::test
