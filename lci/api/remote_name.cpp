#include "lci/api/remote_name.hpp"

#include <cstdio>
#include <string>

#include "lci/errors.hpp"

namespace lci::api {

void throw_changed_rmr(const rmr_t& rmr, int rank) {
  if (rmr.is_empty()) throw argument_error("rmr is empty: it names no remote memory");
  char text[160];
  std::snprintf(text, sizeof text,
                "rmr (base 0x%llx, slot %u, generation %u) is not an unmodified copy of what "
                "get_rmr() returned on rank %d",
                static_cast<unsigned long long>(rmr.base), key_of(rmr).slot, key_of(rmr).generation,
                rank);
  throw argument_error(text);
}

void throw_unknown_key(const remote_span& at) {
  throw argument_error("rmr names no memory that rank " + std::to_string(at.rank) +
                       " has registered (slot " + std::to_string(key_of(at.rmr).slot) +
                       ", generation " + std::to_string(key_of(at.rmr).generation) + ")");
}

void throw_out_of_region(const remote_span& at, std::size_t region) {
  throw argument_error(std::string(at.offset_name) + " " + std::to_string(at.offset) +
                       " with size " + std::to_string(at.size) + " is not inside the region of " +
                       std::to_string(region) + " bytes that rank " + std::to_string(at.rank) +
                       " has registered");
}

}  // namespace lci::api
