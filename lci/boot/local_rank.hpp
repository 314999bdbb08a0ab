// The number of a process among those of the job on its host, as launchers tell it. Callers:
// runtime, which deals cards out by it. Threads: any, as for getenv(). Always true: at least 0;
// where no launcher tells it, what the caller has.
#pragma once

namespace lci::boot {

int find_local_rank(int otherwise) noexcept;

}  // namespace lci::boot
