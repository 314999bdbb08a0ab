// A rank whose forked children end as programs do, by exit(), with what that runs: destructors of
// statics that free what they have. The job goes on, and ends well.
//   lcrun -n 2 interface_fork
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <stdexcept>

#include "lci.hpp"

namespace {

// As programs hold their objects; in a child the object is the parent's.
struct held_comp {
  lci::comp_t comp;
  ~held_comp() {
    try {
      if (!comp.is_empty()) lci::free_comp(&comp);
    } catch (const std::runtime_error&) {
    }
  }
};
held_comp held;

void exchange(int to, int from) {
  int out = lci::get_rank_me(), in = -1;
  lci::post_recv_x(from, &in, sizeof in, 5, held.comp).allow_done(false)();
  lci::post_send_x(to, &out, sizeof out, 5, lci::COMP_NULL)();
  lci::sync_wait(held.comp, nullptr);
  if (in != from) std::abort();
}

}  // namespace

int main() {
  lci::g_runtime_init();
  const int me = lci::get_rank_me(), n = lci::get_rank_n();
  held.comp = lci::alloc_sync();
  for (int round = 0; round < 3; ++round) {
    exchange((me + 1) % n, (me + n - 1) % n);
    std::fflush(nullptr);
    const pid_t child = fork();
    if (child == 0) std::exit(7);
    int status = 0;
    waitpid(child, &status, 0);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 7) std::abort();
    exchange((me + 1) % n, (me + n - 1) % n);
    lci::barrier();
  }
  lci::g_runtime_fina();
  std::printf("rank %d is through\n", me);
  return 0;
}
