#include "lci/runtime/job_member.hpp"

#include "lci/boot/local_rank.hpp"
#include "lci/runtime/global.hpp"

namespace lci::runtime {

job_member member_of_job() {
  global_state& g = global();
  job_member out;
  out.rank = g.rank;
  out.size = g.size;
  out.ranks_here = boot::find_local_size(g.size);
  out.bootstrap = &g.bootstrap;
  out.bootstrap_lock = &g.bootstrap_lock;
  out.defaults = &g_default_attr;
  out.made = &g.made;
  return out;
}

}  // namespace lci::runtime
