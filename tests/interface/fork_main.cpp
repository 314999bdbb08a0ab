// A rank whose forked children end as programs do, by exit(), with what that runs: destructors of
// statics that free what they have. The job goes on, and ends well.
//   lcrun -n 2 interface_fork
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <thread>

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

void end_a_child() {
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) std::exit(7);
  int status = 0;
  waitpid(child, &status, 0);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 7) std::abort();
}

}  // namespace

int main() {
  lci::g_runtime_init();
  const int me = lci::get_rank_me(), n = lci::get_rank_n();
  held.comp = lci::alloc_sync();
  for (int round = 0; round < 3; ++round) {
    exchange((me + 1) % n, (me + n - 1) % n);
    end_a_child();
    exchange((me + 1) % n, (me + n - 1) % n);
    lci::barrier();
  }
  // At a fork another thread may be anywhere inside of the library.
  std::atomic<bool> is_over{false};
  std::thread other([&] {
    while (!is_over.load(std::memory_order_relaxed)) lci::progress();
  });
  for (int fork_number = 0; fork_number < 100; ++fork_number) end_a_child();
  is_over.store(true, std::memory_order_relaxed);
  other.join();
  lci::barrier();
  lci::g_runtime_fina();
  std::printf("rank %d is through\n", me);
  return 0;
}
