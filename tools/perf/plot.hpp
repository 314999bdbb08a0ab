// Plots of results as SVG: text that a browser, GitHub and a page show alike.
// Called by: main, page, tests. Threads: any, nothing is kept.
// Always true: what comes out is well-formed XML, whatever names and numbers are put in.
#pragma once

#include <string>
#include <vector>

#include "tools/perf/report_text.hpp"

namespace lci_perf {

// How many times better lci is than each rival, a bar for each row of a stage.
std::string bars_of(const stage& one, const report& all);

// One line for each library, over the sizes of a measure and an operation. Empty if fewer than
// three sizes were measured.
std::string curves_of(const stage& one, measure what, operation op, const report& all);

// All plots of a stage, most telling first; the one for a README is the first of the first stage.
std::vector<std::string> plots_of(const stage& one, const report& all);

// & < > and quotes as entities; control characters as spaces.
std::string escaped(const std::string& text);

}  // namespace lci_perf
