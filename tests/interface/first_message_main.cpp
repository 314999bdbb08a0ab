// What says_once.py looks at: a rank that marks in its output where its first message begins and
// where its last has ended. Between them it meets every rank, itself as well, more than once.
//   lcrun -n 2 interface_first_message
#include <cstdio>

#include "lci.hpp"

namespace {

void exchange(int to, int from) {
  int out = lci::get_rank_me(), in = -1;
  lci::comp_t sync = lci::alloc_sync();
  lci::post_recv_x(from, &in, sizeof in, 5, sync).allow_done(false)();
  lci::post_send_x(to, &out, sizeof out, 5, lci::COMP_NULL)();
  lci::sync_wait(sync, nullptr);
  lci::free_comp(&sync);
}

}  // namespace

int main() {
  lci::g_runtime_init();
  const int me = lci::get_rank_me(), n = lci::get_rank_n();
  std::fprintf(stderr, "mark: first message\n");
  for (int round = 0; round < 3; ++round) {
    for (int distance = 0; distance < n; ++distance)
      exchange((me + distance) % n, (me + n - distance) % n);
    lci::barrier();
  }
  std::fprintf(stderr, "mark: last message\n");
  lci::g_runtime_fina();
  return 0;
}
