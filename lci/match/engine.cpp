// Choice of a matching engine, and the error that all of them have.
#include "lci/match/engine.hpp"

#include <string>

#include "lci/errors.hpp"
#include "lci/match/map_engine.hpp"
#include "lci/match/queue_engine.hpp"

namespace lci::match {

std::string truncation_text(const match_key& message, std::size_t room) {
  return "a message of " + std::to_string(message.size) + " bytes from rank " +
         std::to_string(message.rank) + " with tag " + std::to_string(message.tag) +
         " does not fit a receive of " + std::to_string(room) + " bytes";
}

void throw_refused(entry_pool& pool, entry* mine) {
  const match_key message{mine->rank, mine->tag, {}, mine->refused};
  const std::size_t room = mine->size;
  pool.put(mine);
  throw truncation_error(truncation_text(message, room));
}

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
