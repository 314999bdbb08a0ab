// Which ranks run on which host, and how lcrun is started there. Threads: single.
// Always true: ranks are assigned in blocks, in the order of the list; a host that gets none is
// left out.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lcrun {

struct host_share {
  std::string name;  // as ssh takes it: "b", "user@b"
  int first = 0;     // rank
  int count = 0;     // number of ranks
};

// "a,b" divides evenly; "a:2,b:6" gives the most that each host takes. Throws argument_error.
std::vector<host_share> share_ranks(std::string_view list, int nprocs);
// The name by which other hosts reach the host: without the user.
std::string address_of(const host_share& host);
// `ssh` may contain several words ("ssh -p 2222"). The last word of the result is for the remote
// shell.
std::vector<std::string> agent_command(std::string_view ssh, const host_share& host);

}  // namespace lcrun
