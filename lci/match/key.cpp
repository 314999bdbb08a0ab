#include "lci/match/key.hpp"

#include <string>

namespace lci::match {

std::string truncation_text(const match_key& message, std::size_t room) {
  return "a message of " + std::to_string(message.size) + " bytes from rank " +
         std::to_string(message.rank) + " with tag " + std::to_string(message.tag) +
         " does not fit a receive of " + std::to_string(room) + " bytes";
}

}  // namespace lci::match
