// Which of the job's processes on its host a process is, and how many these are, as launchers tell
// it. Callers: runtime, which deals cards out by the one and address space by the other. Threads:
// any, as for getenv(). Always true: the number is at least 0 and the count at least 1; where no
// launcher tells it, what the caller has.
#pragma once

namespace lci::boot {

int find_local_rank(int otherwise) noexcept;
int find_local_size(int otherwise) noexcept;

}  // namespace lci::boot
