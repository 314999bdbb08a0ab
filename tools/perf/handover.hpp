// R, the hand-over time of one cache line between two processors: what no library can beat.
// Threads: each call starts two threads of its own and joins them.
#pragma once

namespace lci_perf {

// Median in nanoseconds over blocks of round trips, by plain stores and loads.
double handover_ns(int one_cpu, int other_cpu);

}  // namespace lci_perf
