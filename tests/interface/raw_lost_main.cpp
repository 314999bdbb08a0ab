// Rank 1 ends its runtime, and raw posts of rank 0 to it end with an error: none of them may answer
// that it is posted, since no entry would follow. Two ranks.
#include <cstdio>
#include <functional>

#include "lci.hpp"
#include "lci/errors.hpp"
#include "tests/support/watchdog.hpp"

namespace {

char bytes[64];
std::size_t posted = 0, entries = 0;

void poll() {
  lci::net_status_t out[8];
  entries += lci::net_poll_cq(8, out);
}

// Nothing polls meanwhile, so that the network itself has to refuse the post.
void post_until_refused(const char* name, const std::function<lci::error_t()>& post) {
  try {
    for (;;) {
      const lci::error_t answer = post();
      posted += !answer.is_retry();
      if (answer.is_retry()) poll();
    }
  } catch (const lci::peer_failure_error& error) {
    std::printf("%s heard: %s\n", name, error.what());
  }
}

}  // namespace

int main() {
  lci::g_runtime_init_x().alloc_default_packet_pool(false)();
  const lci::test::watchdog watchdog("raw posts to a rank that has left");
  if (lci::get_rank_me() == 0) {
    while (lci::net_post_send(1, bytes, sizeof(bytes), lci::MR_HOST).is_retry()) poll();
    ++posted;
    post_until_refused("send", [] { return lci::net_post_send(1, bytes, 64, lci::MR_HOST); });
    post_until_refused("short send", [] { return lci::net_post_sends(1, bytes, 8); });
    while (entries < posted) poll();
    std::printf("each posted send has an entry\n");
  } else {
    lci::net_post_recv(bytes, sizeof(bytes), lci::MR_HOST);
    while (entries == 0) poll();
  }
  lci::g_runtime_fina();
}
