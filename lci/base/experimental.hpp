// The error text for a part of the library that is in experimental/ and not in this build. Callers:
// the stubs of such parts. Threads: any.
#pragma once

#include <string>
#include <string_view>

namespace lci::base {

// Where a list of features says the reason beside the name.
inline constexpr const char* NOT_BUILT =
    "experimental, not built: configure with -DLCI_EXPERIMENTAL=ON";

inline std::string not_built(std::string_view what) {
  return std::string(what) + " is experimental and not built: configure with -DLCI_EXPERIMENTAL=ON";
}

}  // namespace lci::base
