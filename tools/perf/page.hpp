// The results as one HTML file with its plots in it, which needs no network and no other file.
// Called by: main, tests. Threads: any, nothing is kept.
// Always true: it is well-formed XML too, and its few lines of script are not needed to read it.
#pragma once

#include <string>

#include "tools/perf/report_text.hpp"

namespace lci_perf {

std::string page_of(const report& all);

}  // namespace lci_perf
