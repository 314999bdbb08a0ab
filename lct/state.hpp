// State of the companion library for the whole process.
// Callers: the sources of this folder. Threads: any; the lock guards the members that say so.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>

#include "lci/boot/bootstrap.hpp"

namespace lct {

struct library_state {
  std::mutex lock;                  // held while the bootstrap works
  std::atomic<int> initialized{0};  // balance of LCT_init() and LCT_fina()
  int joined = 0;  // balance of LCT_pmi_initialize() and LCT_pmi_finalize(); under the lock
  std::atomic<int> threads{0};                 // how many have a number
  std::unique_ptr<lci::boot::bootstrap> boot;  // while joined; under the lock
};
extern constinit library_state state;

// Writes out the counter contexts that a variable wants written and that have not been freed.
void dump_counters();

}  // namespace lct
