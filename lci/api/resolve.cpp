#include "lci/api/resolve.hpp"

#include <string>
#include <string_view>

#include "lci/errors.hpp"

namespace lci::api {

void throw_no_default(const char* what) {
  runtime::refuse_fork(what);
  const bool is_runtime = std::string_view(what) == "runtime";
  throw argument_error(
      std::string(what) + " was not given and there is no default: " +
      (is_runtime ? std::string("call g_runtime_init() or pass one")
                  : "attribute alloc_default_" + std::string(what) +
                        " is off, or the default was freed; pass one, or leave the attribute on"));
}

}  // namespace lci::api
