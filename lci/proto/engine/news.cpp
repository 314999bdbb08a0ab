#include "lci/proto/engine/news.hpp"

#include <cstddef>
#include <string>

namespace lci::proto {

argument_error freed_too_early(const status_t& of, news what, const char* said) {
  constexpr const char* NAMES[] = {"an operation", "a send",    "an active message",
                                   "a put",        "a get",     "a receive",
                                   "a collective", "a message", "a notification"};
  const bool is_arrival = what >= news::message;
  const bool is_from = is_arrival || what == news::get || what == news::receive;
  std::string with;
  if (what != news::collective)
    with = (is_from ? " from rank " : " to rank ") + std::to_string(of.rank) + " with tag " +
           std::to_string(of.tag);
  return argument_error(std::string(NAMES[static_cast<std::size_t>(what)]) + with +
                        (is_arrival
                             ? " names an object that was freed before its number was taken back: "
                             : " is complete, but its object was freed before: ") +
                        said);
}

}  // namespace lci::proto
