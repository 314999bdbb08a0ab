#include "backends/ofi/library.hpp"

#include <dlfcn.h>

#include <mutex>

#include "lci/base/kept_signals.hpp"

namespace lci::ofi {
namespace {

// What was found, or why nothing was.
struct found_library {
  entries table;
  std::string problem;
};

template <class Function>
bool resolve(void* from, const char* name, Function& out, std::string& missing) {
  out = reinterpret_cast<Function>(dlsym(from, name));
  if (out == nullptr && missing.empty()) missing = name;
  return out != nullptr;
}

found_library load() {
  found_library out;
  const base::kept_signals kept;
  void* const from = dlopen("libfabric.so.1", RTLD_NOW | RTLD_LOCAL);
  if (from == nullptr) {
    const char* const why = dlerror();
    out.problem = std::string("libfabric cannot be loaded (") + (why != nullptr ? why : "?") +
                  "); it is in the package libfabric1";
    return out;
  }
  std::string missing;
  resolve(from, "fi_getinfo", out.table.getinfo, missing);
  resolve(from, "fi_freeinfo", out.table.freeinfo, missing);
  resolve(from, "fi_dupinfo", out.table.dupinfo, missing);
  resolve(from, "fi_fabric", out.table.fabric, missing);
  resolve(from, "fi_version", out.table.version, missing);
  resolve(from, "fi_strerror", out.table.strerror, missing);
  if (!missing.empty()) {
    out.problem = "libfabric.so.1 has no " + missing;
  } else if (const std::uint32_t is = out.table.version(); FI_VERSION_LT(is, API)) {
    out.problem = "libfabric " + std::to_string(FI_MAJOR(is)) + "." + std::to_string(FI_MINOR(is)) +
                  " is too old: 1.10 is the least";
  }
  return out;
}

const found_library& the_library() {
  static const found_library one = load();
  return one;
}

}  // namespace

const entries* find_library(std::string& why_not) {
  const found_library& found = the_library();
  why_not = found.problem;
  return found.problem.empty() ? &found.table : nullptr;
}

const entries& library() noexcept { return the_library().table; }

}  // namespace lci::ofi
