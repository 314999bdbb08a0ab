// A client as small as it gets: every rank tells its right neighbour its number. Built at every
// language level that clients use, against whatever way of finding the library the test is about.
#include <cstdio>
#include <cstring>

#include "lci.hpp"
#include "lct.h"

int main() {
  if (std::strcmp(LCT_version(), LCI_VERSION_STRING) != 0) return 1;
  // The companion library is linked beside it or with it: one membership of the job and one rank.
  LCT_init();
  LCT_pmi_initialize();
  lci::g_runtime_init();
  if (LCT_pmi_get_rank() != lci::get_rank_me() || LCT_rank != lci::get_rank_me()) return 1;
  const int me = lci::get_rank_me();
  const int n = lci::get_rank_n();
  int sent = me;
  int received = -1;
  lci::comp_t arrived = lci::alloc_sync();
  lci::status_t receive = lci::post_recv((me + n - 1) % n, &received, sizeof(received), 7, arrived);
  lci::status_t send;
  do {
    send = lci::post_send((me + 1) % n, &sent, sizeof(sent), 7, lci::COMP_NULL);
    lci::progress();
  } while (send.is_retry());
  if (receive.is_posted()) lci::sync_wait(arrived, nullptr);
  lci::free_comp(&arrived);
  const bool right = received == (me + n - 1) % n;
  std::printf("%ld: rank %d of %d %s\n", static_cast<long>(__cplusplus), me, n,
              right ? "in order" : "got the wrong number");
  lci::g_runtime_fina();
  if (LCT_pmi_initialized() != 1) return 1;
  LCT_pmi_finalize();
  LCT_fina();
  return right ? 0 : 1;
}
