// Chooses the bootstrap that this process uses.
//
// The words of LCT_PMI_BACKEND (separated by comma, blank or semicolon), else "lcrun" and the
// built-in default, are tried in order; the first one that is available wins. A list that lcrun
// itself has put there (LCI_LCRUN_BACKEND says so) is also tried only after "lcrun".
// Threads: one at a time. Always true: an unknown word is an error; a process that a launcher
// started as one of several is never rank 0 of 1, unless local is asked for by name; when nothing
// fits, the error lists every word with its reason.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lci/boot/board.hpp"
#include "lci/boot/bootstrap.hpp"

namespace lci::boot {

// Throws argument_error (unknown word), backend_error (nothing fits, or the chosen one failed).
// Connections to launchers that a process can join only once stay in the cache, which lives as long
// as the process.
std::unique_ptr<bootstrap> open_bootstrap(board_cache& cache);

// One line per word of the list in force, for lci_info: what it is and whether it would be used.
struct choice {
  std::string name;
  std::string reason;  // empty = available
};
std::vector<choice> list_bootstraps();

// Why a build without the bootstraps of that list skips `word`; nothing: it has it.
std::optional<std::string> why_left_out(std::string_view left_out, std::string_view word);

}  // namespace lci::boot
