#include "lci/match/make_engine.hpp"

#include <string>

#include "lci/errors.hpp"
#include "lci/match/map_engine.hpp"
#include "lci/match/queue_engine.hpp"

namespace lci::match {

std::unique_ptr<engine> make_engine(attr_matching_engine_type_t type) {
  switch (type) {
    case attr_matching_engine_type_t::queue:
      return std::make_unique<queue_engine>();
    case attr_matching_engine_type_t::map:
      return std::make_unique<map_engine>();
  }
  throw argument_error("attribute matching_engine_type: " + std::to_string(static_cast<int>(type)) +
                       " is no engine; expected queue (0) or map (1)");
}

}  // namespace lci::match
