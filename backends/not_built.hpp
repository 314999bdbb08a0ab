// The place of a backend that this build lacks, in the list of them: it is never usable and says
// why, so that nobody has to guess from its absence. Callers: provider_list.hpp. Threads:
// immutable.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "lci/errors.hpp"
#include "lci/net/provider.hpp"

namespace lci {

// What: NAME, BACKEND and WHY, the last as the build has written it into config.hpp.
template <class What>
struct not_built {
  static std::string probe() { return "not built: " + std::string(What::WHY); }
  static std::unique_ptr<net::fabric> open(const net::fabric_config&) {
    throw backend_error("backend " + std::string(What::NAME) + " is not usable: " + probe());
  }
  static constexpr net::provider PROVIDER{What::NAME, What::BACKEND, &probe, &open};
};

}  // namespace lci
