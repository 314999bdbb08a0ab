#include "lci/api/resolve.hpp"

#include "lci/errors.hpp"

namespace lci::api {

void throw_no_default(const char* what) {
  throw argument_error(std::string(what) +
                       " was not given and there is no default: call g_runtime_init() or pass one");
}

}  // namespace lci::api
