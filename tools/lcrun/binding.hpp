// Which processors each rank of this host gets with --bind core. Threads: single.
// Always true: only processors that lcrun itself may use are assigned; the hardware threads of a
// core stay together.
#pragma once

#include <sched.h>

#include <string>
#include <vector>

namespace lcrun {

// One set per rank: a block of neighbouring cores each, with all cores assigned; if there are more
// ranks than cores, one core each, in turn. Throws backend_error when the system does not list its
// processors.
std::vector<cpu_set_t> deal_cores(int ranks);

// "0-3,8", as the kernel writes it; processors beyond what a set holds are left out.
cpu_set_t parse_processors(const std::string& text);

}  // namespace lcrun
