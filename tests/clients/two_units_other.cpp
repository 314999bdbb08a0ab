// The second file of a program that includes the interface twice.
#include "two_units.hpp"

seen_by_other_file look_from_other_file() {
  return {&lci::DEFAULT_NAME, &lci::g_default_attr, lci::COMP_NULL_RETRY, lci::MR_UNKNOWN,
          lci::GRAPH_END};
}

void throw_from_other_file(int rank) { throw lci::peer_failure_error(rank, "rank failed"); }
