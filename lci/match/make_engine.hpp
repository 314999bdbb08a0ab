// Chooses a matching engine. Callers: code that makes one. Threads: any.
#pragma once

#include <memory>

#include "lci/match/engine.hpp"

namespace lci::match {

// Throws argument_error for an unknown type.
std::unique_ptr<engine> make_engine(attr_matching_engine_type_t type);

}  // namespace lci::match
