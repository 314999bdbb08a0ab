// A rank ends before anybody has talked to it, so that no network can tell: the others hear of it
// through the bootstrap, unless it took leave. Run under lcrun --keep-going as
//   unmet <kill | exit | leave>
// The output says what each rank heard.
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "lci.hpp"
#include "tests/support/watchdog.hpp"

int main(int, char** argv) {
  lci::g_runtime_init();
  const std::string_view way = argv[1];
  const int me = lci::get_rank_me(), last = lci::get_rank_n() - 1;
  lci::test::watchdog dog("a death that no network sees, rank " + std::to_string(me));
  if (me == last && way == "kill") std::raise(SIGKILL);
  if (me == last && way == "exit") std::_Exit(3);
  int heard_of = -1;
  // Who took leave is heard of by nobody, however long one listens: more than twice as long as it
  // takes to hear of a death.
  const auto enough = std::chrono::steady_clock::now() + std::chrono::milliseconds(2500);
  try {
    while (me != last && (way != "leave" || std::chrono::steady_clock::now() < enough))
      lci::progress();
  } catch (const lci::peer_failure_error& error) {
    heard_of = error.failed_rank();
    std::printf("rank %d heard: %s\n", me, error.what());
    try {
      lci::post_send(last, nullptr, 0, 7, lci::COMP_NULL_RETRY);
      std::printf("rank %d could post to the dead\n", me);
    } catch (const lci::peer_failure_error&) {
    }
    // The living go on.
    int in = -1, mine = me;
    lci::comp_t done = lci::alloc_sync();
    const int other = 1 - me;
    const lci::status_t got = lci::post_recv(other, &in, sizeof(in), 7, done);
    while (lci::post_send(other, &mine, sizeof(mine), 7, lci::COMP_NULL_RETRY).is_retry())
      lci::progress();
    if (!got.is_done())
      while (!lci::sync_test(done, nullptr)) lci::progress();
    lci::free_comp(&done);
    if (in != other) heard_of = -1;
  }
  lci::g_runtime_fina();
  std::printf("rank %d ended\n", me);
  const int expected = me == last || way == "leave" ? -1 : last;
  return heard_of == expected ? 0 : 1;
}
