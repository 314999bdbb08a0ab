// Which ranks run on which host, and how lcrun is started there. Threads: single.
// Always true: ranks are dealt out in blocks, in the order of the list; a host that gets none is
// left out.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lcrun {

struct host_share {
  std::string name;  // as ssh wants it: "b", "user@b"
  int first = 0;     // rank
  int count = 0;     // of ranks
};

// "a,b" deals evenly; "a:2,b:6" says how many a host takes at most. Throws argument_error.
std::vector<host_share> share_ranks(std::string_view list, int nprocs);
// The host as other hosts reach it: without the user.
std::string address_of(const host_share& host);
// `ssh` may have words of its own ("ssh -p 2222"). The last word is one for the shell over there.
std::vector<std::string> agent_command(std::string_view ssh, const host_share& host);

}  // namespace lcrun
