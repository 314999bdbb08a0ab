// libfabric, loaded when it is needed and not before: one binary for machines with and without it.
// Everything but a handful of calls goes through the tables of its objects and needs nothing from
// here. Callers: the rest of this folder. Threads: shared. Always true: once loaded it stays, since
// providers keep threads and memory of their own.
#pragma once

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#include <cstdint>
#include <string>

// Macros of the header under names that others use.
#undef count_of
#undef container_of

namespace lci::ofi {

// The entry points, under the names of the library without "fi_".
struct entries {
  decltype(&::fi_getinfo) getinfo = nullptr;
  decltype(&::fi_freeinfo) freeinfo = nullptr;
  decltype(&::fi_dupinfo) dupinfo = nullptr;
  decltype(&::fi_fabric) fabric = nullptr;
  decltype(&::fi_version) version = nullptr;
  decltype(&::fi_strerror) strerror = nullptr;
};

// The interface that is asked for: has GPU memory and fi_context2, and is that of every libfabric
// of the last years.
inline constexpr std::uint32_t API = FI_VERSION(1, 10);

// The table, or null with the reason. The first call loads the library.
const entries* find_library(std::string& why_not);
// The table, after find_library() found it.
const entries& library() noexcept;

}  // namespace lci::ofi
