// What the parts of the companion library keep for the process.
// Callers: the sources of this folder. Threads: any; the lock guards what it says.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>

#include "lci/boot/bootstrap.hpp"

namespace lct {

struct library_state {
  std::mutex lock;                  // held for as long as the bootstrap works
  std::atomic<int> initialized{0};  // balance of LCT_init() and LCT_fina()
  int joined = 0;  // balance of LCT_pmi_initialize() and LCT_pmi_finalize(); under the lock
  std::atomic<int> threads{0};                 // that have a number
  std::unique_ptr<lci::boot::bootstrap> boot;  // while joined; under the lock
};
extern constinit library_state state;

// Writes out the contexts of counters that a variable wants written and that nobody has freed.
void dump_counters();

}  // namespace lct
