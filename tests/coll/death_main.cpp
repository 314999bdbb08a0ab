// A rank dies while the others are in collectives: each of them must be told, with the rank, and be
// able to end. Run under lcrun --keep-going; the output says what each rank heard. Nobody leaves
// before all have heard: else one may hear first that another has left.
#include <atomic>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
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

std::atomic<int> others{0};  // that have heard

// The collective and progress each report the loss. What was under way of the collective may need a
// survivor that has left: a message that it will not receive any more, or the rest of a broken
// barrier that is not waited for. None leaves before we have told it.
void progress_after_loss(int dead, const std::vector<bool>& may_leave) {
  try {
    lci::progress();
  } catch (const lci::peer_failure_error& error) {
    const int lost = error.failed_rank();
    if (lost != dead && !may_leave[static_cast<std::size_t>(lost)]) throw;
  }
}

// Tells the survivors, and waits until they have told us.
void wait_for_survivors(lci::rcomp_t heard, int dead) {
  const int me = lci::get_rank_me(), n = lci::get_rank_n();
  char nothing = 0;
  std::vector<bool> may_leave(static_cast<std::size_t>(n));
  for (int rank = 0; rank < n; ++rank) {
    if (rank == me || rank == dead) continue;
    while (lci::post_am(rank, &nothing, 1, lci::COMP_NULL_RETRY, heard).is_retry())
      progress_after_loss(dead, may_leave);
    may_leave[static_cast<std::size_t>(rank)] = true;
  }
  while (others != n - 2) progress_after_loss(dead, may_leave);
}

}  // namespace

int main(int, char** argv) {
  lci::g_runtime_init();
  const int me = lci::get_rank_me(), last = lci::get_rank_n() - 1;
  lci::test::watchdog dog("death during " + std::string(argv[1]) + ", rank " + std::to_string(me));
  lci::comp_t handler = lci::alloc_handler([](lci::status_t status) {
    std::free(status.buffer);
    ++others;
  });
  const lci::rcomp_t heard = lci::register_rcomp(handler);
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
  wait_for_survivors(heard, heard_of);
  lci::deregister_rcomp(heard);
  lci::free_comp(&handler);
  lci::g_runtime_fina();
  // The status of a job that has lost a rank says nothing of this.
  if (lci::test::has_leaked_memory()) return 1;
  std::printf("rank %d ended\n", me);
  return heard_of == last ? 0 : 1;
}
