// lci_perf: measures lci on this machine, in turn with other libraries. docs/benchmarks.md explains
// its numbers.
#include <unistd.h>

#include <cstdio>
#include <exception>
#include <fstream>

#include "tools/perf/campaign.hpp"
#include "tools/perf/gpu_buffer.hpp"
#include "tools/perf/lci_worker.hpp"
#include "tools/perf/nccl_worker.hpp"
#include "tools/perf/page.hpp"
#include "tools/perf/plot.hpp"
#include "tools/perf/raw_worker.hpp"
#include "tools/perf/report_text.hpp"
#include "tools/perf/rivals.hpp"

namespace {

using namespace lci_perf;

std::string own_path() {
  std::string path(4096, 0);
  const ssize_t got = readlink("/proc/self/exe", path.data(), path.size());
  path.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  return path;
}

// Before anything is measured: a file that cannot be written is known at once.
void try_to_write(const arguments& asked) {
  for (const std::string& where : {asked.csv, asked.json, asked.html, asked.svg})
    if (!where.empty() && where != "-" && !std::ofstream(where, std::ios::app))
      throw std::runtime_error("cannot write " + where);
}

void write_to(const std::string& where, const std::string& text) {
  if (where.empty()) return;
  if (where == "-") {
    std::fputs(text.c_str(), stdout);
    return;
  }
  std::ofstream file(where);
  file << text;
  file.close();
  if (!file) throw std::runtime_error("cannot write " + where);
}

void list(const report& all, const topology& here, const std::vector<contender>& who) {
  std::printf("%s\n\nprocessors, nearest first:\n", machine_text(all).c_str());
  for (const placement kind : PLACEMENTS) {
    const std::vector<cpu_pair> pairs = here.pairs(kind, MOST_SEATS / 2);
    std::printf("  %-13s %s: %zu pairs", name_of(kind),
                pairs.empty() ? description_of(kind) : here.description(pairs[0]), pairs.size());
    if (!pairs.empty()) std::printf(", first %d and %d", pairs[0].first, pairs[0].second);
    std::printf("\n");
  }
  std::printf("\nlibraries:\n");
  for (const contender& one : who)
    std::printf("  %-13s %s\n", one.name.c_str(),
                one.why_not.empty() ? "can be measured" : one.why_not.c_str());
  const std::string no_gpu = why_no_gpu();
  std::printf("\nGPU memory: %s\n", no_gpu.empty() ? "can be measured" : no_gpu.c_str());
}

// For a README: the first plot of the first place that has one.
std::string picture_of(const report& all) {
  for (const stage& one : all.stages)
    if (const std::vector<std::string> plots = plots_of(one, all); !plots.empty()) return plots[0];
  throw std::runtime_error(
      "nothing was measured that can be plotted: bars need a second library, curves need three "
      "sizes");
}

int measure_all(const arguments& asked) {
  const std::string self = own_path(), beside = self.substr(0, self.rfind('/'));
  const std::vector<int> cpus = usable_cpus();
  const topology here("/sys/devices/system", cpus);
  report all{describe("/proc"),
             static_cast<int>(cpus.size()),
             here.cores(),
             asked.is_threads,
             asked.is_shared,
             asked.is_gpu,
             asked.rounds,
             {},
             {}};
  const std::vector<contender> who =
      choose(asked, find_lci(beside, self),
             find_rivals(asked.rivals.empty() ? beside : asked.rivals, self));
  if (asked.is_list) {
    list(all, here, who);
    return 0;
  }
  if (const std::string why = asked.is_gpu ? why_no_gpu() : ""; !why.empty()) {
    std::fprintf(stderr, "lci_perf: no GPU memory here: %s\n", why.c_str());
    return 77;
  }
  all.stages = make_plan(asked, here, cpus);
  try_to_write(asked);
  bool is_whole = true;
  {
    progress_line line(stderr, isatty(2) != 0);
    campaign runs(asked, who, line);
    const auto count = static_cast<double>(all.stages.size());
    for (std::size_t i = 0; i < all.stages.size(); ++i) {
      runs.run(all.stages[i], static_cast<double>(i) / count, static_cast<double>(i + 1) / count);
      for (const row& one : all.stages[i].rows)
        is_whole = is_whole && !one.entries[0].values.empty() &&
                   one.entries[0].messages == one.entries[0].expected;
    }
    all.versions = runs.versions();
  }
  if (asked.json != "-" && asked.csv != "-" && asked.html != "-" && asked.svg != "-")
    write_to("-", table_of(all));
  write_to(asked.csv, csv_of(all));
  write_to(asked.json, json_of(all));
  if (!asked.html.empty()) write_to(asked.html, page_of(all));
  if (!asked.svg.empty()) write_to(asked.svg, picture_of(all));
  return is_whole ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (words == std::vector<std::string>{"--worker"}) return run_lci_worker();
  if (words == std::vector<std::string>{"--raw"}) return run_raw_worker();
  if (words == std::vector<std::string>{"--nccl"}) return run_nccl_worker();
  try {
    const arguments asked = parse(words);
    if (asked.is_help) {
      std::fputs(USAGE, stdout);
      return 0;
    }
    return measure_all(asked);
  } catch (const std::exception& problem) {
    std::fprintf(stderr, "lci_perf: %s\n", problem.what());
    return 2;
  }
}
