// The last rank ends itself right after the start, and the others go on to make devices, which all
// ranks have to do together: an error, after which the library ends in good order. Under
// lcrun --keep-going, two ranks or more.
#include <csignal>
#include <cstdio>
#include <string>

#include "lci.hpp"
#include "tests/support/watchdog.hpp"

int main() {
  lci::g_runtime_init();
  const int me = lci::get_rank_me();
  if (me == lci::get_rank_n() - 1) std::raise(SIGKILL);
  const lci::test::watchdog watchdog("making a device without a rank, rank " + std::to_string(me));
  int errors = 0;
  for (int i = 0; i < 3; ++i) {
    try {
      (void)lci::alloc_device();  // freed with the runtime, if at all
      std::printf("rank %d has a device\n", me);
    } catch (const std::runtime_error& error) {
      ++errors;
      std::printf("rank %d heard: %s\n", me, error.what());
    }
  }
  lci::g_runtime_fina();
  std::printf("rank %d ended after %d errors\n", me, errors);
}
