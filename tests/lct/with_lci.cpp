// Both libraries in one program: a process is a member of its job once, whoever joins first and
// whoever goes first; what is forked from it is none.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <thread>

#include "lci.hpp"
#include "lct.h"

namespace {

void check(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "not so: %s\n", what);
  std::exit(1);
}

// Both see the same job, and all of its ranks.
void meet(const std::string& key) {
  const int me = LCT_pmi_get_rank(), n = LCT_pmi_get_size();
  check(me == lci::get_rank_me() && n == lci::get_rank_n(), "one rank in both");
  check(LCT_rank == me, "the rank of log lines");
  LCT_pmi_publish(key.c_str(), std::to_string(me).c_str());
  LCT_pmi_barrier();
  char value[LCT_PMI_STRING_LIMIT + 1];
  for (int rank = 0; rank < n; ++rank) {
    LCT_pmi_getname(rank, key.c_str(), value);
    check(std::to_string(rank) == value, "what each rank has published");
  }
  lci::barrier();
}

void first_lct() {
  LCT_pmi_initialize();
  const int me = LCT_pmi_get_rank();
  lci::g_runtime_init();
  meet("first lct");
  lci::g_runtime_fina();
  check(LCT_pmi_initialized() == 1 && LCT_pmi_get_rank() == me, "LCI's end is not that of LCT");
  LCT_pmi_barrier();
  lci::g_runtime_init();
  meet("again");
  LCT_pmi_finalize();
  check(LCT_pmi_initialized() == 1, "LCI is a member");
  lci::barrier();
  lci::g_runtime_fina();
  check(LCT_pmi_initialized() == 0, "all have gone");
}

void first_lci() {
  lci::g_runtime_init();
  check(LCT_pmi_initialized() == 1, "LCI has joined");
  meet("without LCT_pmi_initialize()");
  LCT_pmi_initialize();
  lci::g_runtime_fina();
  LCT_pmi_barrier();
  LCT_pmi_finalize();
  check(LCT_pmi_initialized() == 0, "all have gone");
}

// At the fork another thread of the member is in a call, as long as the others do not come.
void fork_in_a_barrier() {
  lci::g_runtime_init();
  LCT_pmi_initialize();
  const int me = lci::get_rank_me(), n = lci::get_rank_n();
  char byte = 0;
  if (me == 0 && n > 1) {
    std::thread other([] { LCT_pmi_barrier(); });
    for (int i = 0; i < 100; ++i) {
      const pid_t child = fork();
      if (child == 0) {
        alarm(30);
        try {
          LCT_pmi_get_rank();
        } catch (const std::runtime_error& error) {
          _exit(std::string(error.what()).find("forked from a rank") == std::string::npos);
        }
        _exit(2);
      }
      int status = 0;
      check(child > 0 && waitpid(child, &status, 0) == child, "there was a child");
      check(status == 0, "a child is refused at once");
    }
    for (int to = 1; to < n; ++to) lci::post_send(to, &byte, 1, 5, lci::COMP_NULL);
    other.join();
  } else {
    if (me != 0) lci::post_recv(0, &byte, 1, 5, lci::COMP_NULL);
    LCT_pmi_barrier();
  }
  LCT_pmi_finalize();
  lci::g_runtime_fina();
}

}  // namespace

int main() {
  LCT_init();
  for (int round = 0; round < 2; ++round) {
    first_lct();
    first_lci();
  }
  fork_in_a_barrier();
  LCT_fina();
}
