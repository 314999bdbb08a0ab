// Start and end, the identity of this process, and numbers for its threads.
// Threads: as the headers say; the counts are atomic or behind a lock.
#include "lct/life.h"

#include <atomic>
#include <cstring>

#include "lci/base/log.hpp"
#include "lci/config.hpp"
#include "lci/errors.hpp"
#include "lct/state.hpp"

// Filled when the library is loaded: programs read it without calling a function.
char LCT_hostname[256] = "?";

namespace lct {

constinit library_state state;

namespace {

const bool host_is_known = [] {
  std::strncpy(LCT_hostname, lci::base::log::host(), sizeof(LCT_hostname) - 1);
  return true;
}();

}  // namespace
}  // namespace lct

extern "C" {

const char* LCT_version(void) { return LCI_VERSION_STRING; }

// Relaxed: only a count; it publishes no other data.
void LCT_init(void) { lct::state.initialized.fetch_add(1, std::memory_order_relaxed); }

void LCT_fina(void) {
  std::atomic<int>& count = lct::state.initialized;
  int before = count.load(std::memory_order_relaxed);
  do {
    if (before == 0) throw lci::argument_error("LCT_fina() without LCT_init()");
  } while (!count.compare_exchange_weak(before, before - 1, std::memory_order_relaxed));
  if (before == 1) lct::dump_counters();
}

void LCT_set_rank(int rank) { lci::base::log::set_rank(rank); }
int LCT_get_rank(void) { return lci::base::log::rank(); }

int LCT_get_thread_id(void) {
  // Not the numbers of base/thread_id, which are reused and limited. Relaxed: only a number.
  static constinit thread_local int mine = -1;
  if (mine < 0) mine = lct::state.threads.fetch_add(1, std::memory_order_relaxed);
  return mine;
}

int LCT_get_nthreads(void) { return lct::state.threads.load(std::memory_order_relaxed); }

}  // extern "C"
