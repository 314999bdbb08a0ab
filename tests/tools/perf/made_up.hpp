// Results as a run would have them, for the tests of what is made of them. Threads: any.
#pragma once

#include "tools/perf/report_text.hpp"

namespace lci_perf {

// Latency and four sizes of bandwidth: lci, a rival that is half as fast in the first and twice as
// fast in the others, and one that could not be measured. Names have what must be escaped.
inline report made_up() {
  report all{
      {"Imagined <9000> & \"Co\"", "Linux 6", false, 0}, 16, 8, false, false, false, 3, {}, {}};
  all.versions = {{"lci", "lci 2"}, {"ucx", "UCX <1>"}};
  stage one{"two cores that share a cache (0 and 1)",
            "near",
            "",
            {1, false, false, false, 8, {0, 1}},
            "",
            55,
            56,
            {}};
  const auto measured = [](const char* name, std::vector<double> values) {
    return entry{name, std::move(values), 300, 300, ""};
  };
  const entry absent{"nccl", {}, 0, 0, "no GPU"};
  one.rows.push_back({measure::latency,
                      operation::am,
                      8,
                      {measured("lci", {100, 110, 90}), measured("ucx", {200, 220, 180}), absent}});
  for (const std::uint64_t size : {4096u, 8192u, 16384u, 32768u})
    one.rows.push_back({measure::bandwidth,
                        operation::sendrecv,
                        size,
                        {measured("lci", {5, 5, 5}), measured("ucx", {10, 10, 10}), absent}});
  all.stages.push_back(one);
  return all;
}

}  // namespace lci_perf
