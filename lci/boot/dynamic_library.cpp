#include "lci/boot/dynamic_library.hpp"

#include <dlfcn.h>

#include "lci/errors.hpp"

namespace lci::boot {

dynamic_library dynamic_library::open(std::initializer_list<std::string> names, bool global) {
  dynamic_library out;
  for (const std::string& name : names) {
    if (name.empty()) continue;
    out.handle_ =
        ::dlopen(name.c_str(), RTLD_NOW | RTLD_NODELETE | (global ? RTLD_GLOBAL : RTLD_LOCAL));
    if (out.handle_ != nullptr) {
      out.open_ = true;
      out.name_ = name;
      return out;
    }
    const char* const why = ::dlerror();
    out.why_not_.append(out.why_not_.empty() ? "" : "; ").append(why != nullptr ? why : name);
  }
  return out;
}

dynamic_library dynamic_library::of_program() noexcept {
  dynamic_library out;
  out.handle_ = RTLD_DEFAULT;
  out.open_ = true;
  out.name_ = "this program";
  return out;
}

void* dynamic_library::find(const char* symbol) const noexcept {
  return open_ ? ::dlsym(handle_, symbol) : nullptr;
}

void* dynamic_library::find_or_throw(const char* symbol) const {
  void* const found = find(symbol);
  if (found == nullptr) throw backend_error(name_ + " has no function " + symbol);
  return found;
}

}  // namespace lci::boot
