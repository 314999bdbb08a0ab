#include "tools/perf/plan.hpp"

#include <algorithm>
#include <limits>
#include <stdexcept>

namespace lci_perf {

namespace {

constexpr std::uint64_t KIB = 1024, MIB = 1024 * KIB;
constexpr std::uint64_t IN_FLIGHT = 8 * MIB;  // bytes of a window, for sizes that allow it

std::vector<std::uint64_t> usual_sizes(measure what) {
  if (what == measure::bandwidth) return parse_sizes("4K..64M");
  if (what == measure::overlap) return {64 * KIB, MIB, 4 * MIB};
  return {8};
}

std::vector<row> rows_of(const arguments& asked) {
  using enum operation;
  std::vector<row> rows;
  if (asked.measures.empty() && asked.sizes.empty()) {
    const std::vector<operation> both =
        asked.operations.empty() ? std::vector{am, sendrecv} : asked.operations;
    for (const measure what : {measure::latency, measure::rate})
      for (const operation op : both) rows.push_back({what, op, 8, {}});
    for (const operation op : asked.operations.empty() ? std::vector{sendrecv} : both)
      for (const std::uint64_t size : {64 * KIB, MIB})
        rows.push_back({measure::bandwidth, op, size, {}});
    return rows;
  }
  const std::vector<measure> measures =
      asked.measures.empty() ? std::vector{measure::latency, measure::rate, measure::bandwidth}
                             : asked.measures;
  for (const measure what : measures) {
    for (const operation op :
         asked.operations.empty() ? std::vector{am, sendrecv} : asked.operations) {
      if (what == measure::overlap && op == get) continue;  // reads have no answer
      for (const std::uint64_t size : asked.sizes.empty() ? usual_sizes(what) : asked.sizes)
        rows.push_back({what, op, size, {}});
    }
  }
  return rows;
}

struct site {
  std::string kind, place, note;
  std::vector<int> cpus;  // of each seat
};

std::vector<int> seats_of(const std::vector<cpu_pair>& pairs, int wanted) {
  std::vector<int> cpus;
  for (int pair = 0; pair < wanted; ++pair) {
    const auto& [one, other] = pairs[static_cast<std::size_t>(pair) % pairs.size()];
    cpus.insert(cpus.end(), {one, other});
  }
  return cpus;
}

std::string numbers_of(const cpu_pair& pair) {
  return std::to_string(pair.first) + " and " + std::to_string(pair.second);
}

// Empty if each pair has its own cores.
std::string note_of(const std::vector<cpu_pair>& found, int wanted, const topology& here) {
  if (static_cast<int>(found.size()) < wanted)
    return "such pairs of processors here: " + std::to_string(found.size()) +
           "; more than that share them, and yield to each other";
  return here.share_cores(found) ? "some pairs are on hyperthreads of the same cores" : "";
}

site site_of(placement kind, int pairs, const topology& here) {
  const std::vector<cpu_pair> found = here.pairs(kind, pairs);
  return {name_of(kind),
          std::string(here.description(found[0])) + " (" + numbers_of(found[0]) + ")",
          note_of(found, pairs, here), seats_of(found, pairs)};
}

// "3,7", as --placement has it.
cpu_pair two_of(const std::string& asked, const std::vector<int>& cpus) {
  const std::vector<int> two = parse_cpu_list(asked);
  if (two.size() != 2 || two[0] == two[1])
    throw std::invalid_argument("--placement: \"" + asked + "\" is not two processors, as 0,1");
  for (const int cpu : two)
    if (std::find(cpus.begin(), cpus.end(), cpu) == cpus.end())
      throw std::invalid_argument("--placement: processor " + std::to_string(cpu) +
                                  " is not for this process");
  return {two[0], two[1]};
}

std::vector<site> sites_of(const std::string& asked, int pairs, const topology& here,
                           const std::vector<int>& cpus) {
  std::vector<site> sites;
  if (asked.find(',') == std::string::npos && asked != "all" &&
      std::none_of(std::begin(PLACEMENTS), std::end(PLACEMENTS),
                   [&](placement kind) { return asked == name_of(kind); }))
    throw std::invalid_argument("--placement: \"" + asked +
                                "\" is no kind of place, nor two processors as 0,1");
  const bool is_two = asked.find(',') != std::string::npos;
  const cpu_pair two = is_two ? two_of(asked, cpus) : cpu_pair{};
  if (cpus.size() < 2) {
    sites.push_back({"one processor", "one processor for all", "both ends share a processor",
                     std::vector<int>(static_cast<std::size_t>(2 * pairs), cpus.at(0))});
    return sites;
  }
  if (is_two) {
    const placement kind = here.between(two.first, two.second);
    sites.push_back({name_of(kind),
                     std::string(here.description(two)) + " (" + numbers_of(two) + ")",
                     note_of({two}, pairs, here), seats_of({two}, pairs)});
    return sites;
  }
  std::string known;
  for (const placement kind : here.kinds()) {
    known += std::string(" ") + name_of(kind);
    if (asked == "all" || asked == name_of(kind)) sites.push_back(site_of(kind, pairs, here));
  }
  if (sites.empty())
    throw std::invalid_argument("--placement: \"" + asked +
                                "\" is none that this machine has:" + known);
  return sites;
}

}  // namespace

const char* row::unit() const {
  switch (what) {
    case measure::latency:
      return size <= 8192 ? "ns" : "us";
    case measure::rate:
      return "M/s";
    case measure::bandwidth:
      return "GB/s";
    case measure::overlap:
      return "%";
  }
  return "";
}

std::vector<stage> make_plan(const arguments& asked, const topology& here,
                             const std::vector<int>& cpus) {
  std::vector<stage> stages;
  const std::vector<row> rows = rows_of(asked);
  if (rows.empty())
    throw std::invalid_argument(
        "overlap is not measured for get, and no other operation was requested");
  std::uint64_t largest = 8;
  for (const row& one : rows) largest = std::max(largest, one.size);
  const std::vector<std::string> transports =
      asked.transports.empty() ? std::vector<std::string>{""} : asked.transports;
  for (const std::string& transport : transports) {
    for (const int pairs : asked.pairs) {
      for (site& one : sites_of(asked.placement, pairs, here, cpus)) {
        stage next{one.place, one.kind, transport, {}, one.note, 0, 0, rows};
        next.processes = {pairs,        asked.is_threads, asked.is_shared,
                          asked.is_gpu, largest,          std::move(one.cpus)};
        stages.push_back(std::move(next));
      }
    }
  }
  return stages;
}

order make_order(const row& what, std::uint64_t count) {
  order o{what.what, what.op, what.size, count, 1, 0};
  if (what.what == measure::latency || what.what == measure::overlap) return o;
  if (what.what == measure::rate && what.op != operation::sendrecv) {
    // A stream, which the receiver stops only at its end; reads wait for their data.
    const std::uint64_t most = what.op == operation::get ? MOST_IN_WINDOW : 1'000'000;
    o.window = static_cast<std::uint32_t>(std::min(count, step_of(what.size, most)));
  } else {
    o.window = static_cast<std::uint32_t>(std::clamp<std::uint64_t>(
        IN_FLIGHT / what.size, 1, std::min<std::uint64_t>(MOST_IN_WINDOW, count)));
  }
  o.count = (count + o.window - 1) / o.window * o.window;
  return o;
}

double value_of(const row& what, const order& given, const std::vector<result>& results) {
  std::uint64_t begin = std::numeric_limits<std::uint64_t>::max(), end = 0;
  double hidden = 0, each = 0;
  const auto pairs = static_cast<double>(results.size()) / 2;
  for (std::size_t seat = 0; seat < results.size(); seat += 2) {
    begin = std::min(begin, results[seat].begin_ns);
    end = std::max(end, results[seat].end_ns);
    hidden += results[seat].hidden / pairs;
    each += static_cast<double>(results[seat].end_ns - results[seat].begin_ns) / pairs;
  }
  const double ns = std::max(1.0, static_cast<double>(end - begin));
  const auto count = static_cast<double>(given.count);
  switch (what.what) {
    case measure::latency: {
      const double one_way = each / count / (what.op == operation::get ? 1 : 2);
      return what.unit()[0] == 'u' ? one_way / 1e3 : one_way;
    }
    case measure::rate:
      return count * pairs * 1e3 / ns;
    case measure::bandwidth:
      return count * pairs * static_cast<double>(given.size) / ns;
    case measure::overlap:
      return 100 * hidden;
  }
  return 0;
}

std::uint64_t messages_of(const std::vector<result>& results) {
  std::uint64_t all = 0;
  for (const result& one : results) all += one.messages;
  return all;
}

std::uint64_t expected_of(const row& what, const order& given, int pairs) {
  const bool is_twice =
      (what.what == measure::latency && what.op != operation::get) || what.what == measure::overlap;
  return given.count * static_cast<std::uint64_t>(pairs) * (is_twice ? 2 : 1);
}

}  // namespace lci_perf
