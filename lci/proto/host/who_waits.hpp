// What is under way in one runtime, for the launcher's page of who waits for what: unmatched
// receives and messages, large transfers, active messages that wait for their turn, backlogs,
// refusals, rounds of progress, and how far the connection with each peer that is named is.
// Threads: one at a time, in a signal handler, while all others go on. Nothing here waits, takes
// memory or changes anything: what another holds, or the very thread that was interrupted, is said
// to be busy. Always true: what is read without a lock is numbers only, never a pointer that is
// followed, and of a state whose name is still the same afterwards.
#pragma once

#include "lci/base/report.hpp"

namespace lci::proto {

class core;

void report(core& of, base::report::sheet& to) noexcept;

}  // namespace lci::proto
