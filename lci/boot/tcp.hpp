// The bootstrap of processes that know rank, size and the address of rank 0, as torchrun gives
// them. Rank 0 listens on that address only, until all ranks have joined.
// Threads: single. There is no thread behind it: rank 0 serves the others inside its own fences.
// Always true: without a key of the job (LCT_PMI_TCP_KEY, or LCT_PMI_TCP_KEY_FILE) only loopback
// addresses are used, because anyone who reaches the port could join; with one, a peer that does
// not know it is refused and all bytes are sealed (seal.hpp); each wait ends after
// LCT_PMI_TCP_TIMEOUT_SEC seconds with an error that names the missing ranks.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "lci/boot/bootstrap.hpp"

namespace lci::boot {

// Why tcp cannot be used here, or nothing if it can.
std::optional<std::string> tcp_unavailable();
// Joins the job. Throws backend_error.
std::unique_ptr<bootstrap> open_tcp();

}  // namespace lci::boot
