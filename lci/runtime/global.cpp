#include "lci/runtime/global.hpp"

#include <sched.h>

#include <string>

#include "lci/base/spin.hpp"
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

namespace {

// The cores of this process, not of the machine: a launcher or a container may have left it fewer.
int usable_cores() noexcept {
  cpu_set_t mine;
  if (sched_getaffinity(0, sizeof(mine), &mine) != 0) return 1;
  return CPU_COUNT(&mine);
}

}  // namespace

constinit global_state detail::state;

void set_ranks_on_machine(int count) noexcept {
  base::spin_wait::set_oversubscribed(count > usable_cores());
}

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
