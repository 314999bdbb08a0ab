#include "lci/base/spin.hpp"

namespace lci::base {

constinit thread_local std::uint32_t turn_away::pauses_tls = 0;

}  // namespace lci::base
