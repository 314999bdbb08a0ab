#include "lci/runtime/global.hpp"

#include <string>

#include "lci/base/type_stable.hpp"
#include "lci/errors.hpp"
#include "lci/runtime.hpp"

namespace lci {

const char* DEFAULT_NAME = "unnamed";
global_attr_t g_default_attr;

global_attr_t get_g_default_attr() { return g_default_attr; }
void set_g_default_attr(const global_attr_t& attr) { g_default_attr = attr; }
int get_rank_me() { return runtime::global().rank; }
int get_rank_n() { return runtime::global().size; }

namespace runtime {

constinit global_state detail::state;

void refuse_fork(const char* what) {
  if (global().is_forked) throw argument_error(std::string(what) + ": " + base::FORKED_TEXT);
}

void require_initialized(const char* what) {
  refuse_fork(what);
  if (global().initialized == 0)
    throw argument_error(std::string(what) + " before global_initialize()");
}

}  // namespace runtime
}  // namespace lci
