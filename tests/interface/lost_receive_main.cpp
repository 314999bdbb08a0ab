// Rank 1 is killed between the moment at which rank 0 has filed a receive for its message and the
// last look of post_recv() whether anybody has ended: the receive must not wait for ever. Under
// lcrun --keep-going -n 2.
#include <unistd.h>
#include <csignal>
#include <cstdio>

#include "lci.hpp"
#include "tests/support/race_hook.hpp"
#include "tests/support/watchdog.hpp"

namespace {

constexpr lci::tag_t TAG = 7;

// A round of progress may be what tells it.
bool has_ended(int rank) {
  int nothing = 0;
  try {
    lci::progress();
    lci::post_send(rank, &nothing, sizeof(nothing), TAG, lci::COMP_NULL_RETRY);
  } catch (const std::runtime_error&) {
    return true;
  }
  return false;
}

void lose_the_other_one() {
  pid_t other = 0;
  lci::comp_t sync = lci::alloc_sync();
  // Twice: the second one finds a record of the first at hand.
  for (int i = 0; i < 2; ++i) {
    if (lci::post_recv(1, &other, sizeof(other), TAG, sync).is_posted())
      lci::sync_wait(sync, nullptr);
  }
  pid_t none = 0;
  const lci::test::race_hook hook(
      "post.post_recv.after_filing",
      [&] {
        kill(other, SIGKILL);
        while (!has_ended(1)) {
        }
      },
      1);
  try {
    lci::post_recv(1, &none, sizeof(none), TAG, sync);
    lci::sync_wait(sync, nullptr);
    std::printf("the receive was met\n");
  } catch (const std::runtime_error& error) {
    std::printf("the receive ended, hooks %d: %s\n", hook.hits(), error.what());
  }
  lci::free_comp(&sync);
}

}  // namespace

int main() {
  if (!lci::test::has_race_points) {
    std::printf("skipped: %s\n", lci::test::RACE_POINTS_MISSING);
    return 77;
  }
  lci::g_runtime_init();
  const lci::test::watchdog watchdog("a receive from a rank that is lost meanwhile");
  if (lci::get_rank_me() == 0) {
    lose_the_other_one();
  } else {
    pid_t me = getpid();
    for (int i = 0; i < 2; ++i)
      while (lci::post_send(0, &me, sizeof(me), TAG, lci::COMP_NULL).is_retry()) lci::progress();
    for (;;) lci::progress();
  }
  lci::g_runtime_fina();
}
