// A rank dies while the others are in collectives: each of them must be told, with the rank, and be
// able to end. Run under lcrun --keep-going; the output says what each rank heard.
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "lci.hpp"
#include "tests/support/memory_leaks.hpp"
#include "tests/support/watchdog.hpp"

namespace {

void collective(const std::string& which) {
  static std::vector<char> data(300000);
  if (which == "barrier") lci::barrier();
  if (which == "barrier_later") {
    static const lci::comp_t count = lci::alloc_counter();
    static std::int64_t rounds = 0;
    lci::barrier_x().comp(count)();
    ++rounds;
    while (lci::counter_get(count) != rounds) lci::progress();
  }
  if (which == "broadcast") lci::broadcast(data.data(), data.size(), 0);
  if (which == "alltoall") {
    static std::vector<char> in(1 << 20), out(1 << 20);
    lci::alltoall(in.data(), out.data(), in.size() / static_cast<size_t>(lci::get_rank_n()));
  }
}

}  // namespace

int main(int, char** argv) {
  lci::g_runtime_init();
  const int me = lci::get_rank_me(), last = lci::get_rank_n() - 1;
  lci::test::watchdog dog("death during " + std::string(argv[1]) + ", rank " + std::to_string(me));
  lci::barrier();
  int heard_of = -1;
  try {
    // Whoever needs nothing from the dead, such as the root of a broadcast, hears of it sooner or
    // later.
    for (int round = 0;; ++round) {
      if (me == last && round == 20) std::raise(SIGKILL);
      collective(argv[1]);
    }
  } catch (const lci::peer_failure_error& error) {
    heard_of = error.failed_rank();
    std::printf("rank %d heard that rank %d died\n", me, heard_of);
  }
  lci::g_runtime_fina();
  // The status of a job that has lost a rank says nothing of this.
  if (lci::test::has_leaked_memory()) return 1;
  std::printf("rank %d ended\n", me);
  return heard_of == last ? 0 : 1;
}
