#include "lci/match/entry.hpp"

#include "lci/errors.hpp"

namespace lci::match {

void throw_refused(entry_pool& pool, entry* mine) {
  const match_key message{mine->rank, mine->tag, {}, mine->refused};
  const std::size_t room = mine->size;
  give_back(pool, mine);
  throw truncation_error(truncation_text(message, room));
}

}  // namespace lci::match
