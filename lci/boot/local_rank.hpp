// The number of a process among those of its job on its host, and how many these are, as launchers
// report it. Callers: runtime, which uses the number to assign cards and the count to divide
// address space. Threads: any, as for getenv(). Always true: the number is at least 0 and the count
// at least 1; if no launcher reports it, the caller's value is returned.
#pragma once

namespace lci::boot {

int find_local_rank(int otherwise) noexcept;
int find_local_size(int otherwise) noexcept;

}  // namespace lci::boot
