// What the two files of the link test tell each other.
#pragma once

#include "lci.hpp"

struct seen_by_other_file {
  const char* const* default_name;  // address of the one variable
  lci::global_attr_t* defaults;
  lci::comp_t comp_null_retry;
  lci::mr_t mr_unknown;
  lci::graph_node_t graph_end;
};
seen_by_other_file look_from_other_file();
void throw_from_other_file(int rank);
