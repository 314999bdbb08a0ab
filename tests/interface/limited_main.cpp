// Rank 1 has no address space left for the memory of rank 0, as with a small "ulimit -v": both hear
// why they cannot meet, although both live.
//   lcrun -n 2 interface_limited
#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <string>

#include "lci.hpp"
#include "tests/support/watchdog.hpp"

namespace {

// So much that what a program does by the way still has room.
constexpr rlim_t ROOM = rlim_t{8} << 20;

void leave_no_room() {
  rlim_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  rlimit limit{};
  getrlimit(RLIMIT_AS, &limit);
  limit.rlim_cur = pages * static_cast<rlim_t>(sysconf(_SC_PAGESIZE)) + ROOM;
  setrlimit(RLIMIT_AS, &limit);
}

}  // namespace

int main() {
  lci::g_runtime_init();
  const int me = lci::get_rank_me(), other = 1 - me;
  lci::test::watchdog dog("no address space, rank " + std::to_string(me));
  if (me == 1) leave_no_room();
  bool has_heard = false;
  try {
    char byte = 0;
    lci::post_send(other, &byte, 1, 5, lci::COMP_NULL);
    for (;;) lci::post_recv(other, &byte, 1, 5, lci::COMP_NULL);
  } catch (const lci::peer_failure_error& error) {
    std::printf("rank %d heard: %s\n", me, error.what());
    has_heard = true;
  }
  lci::g_runtime_fina();
  return has_heard ? 0 : 1;
}
