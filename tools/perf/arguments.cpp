#include "tools/perf/arguments.hpp"

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <map>
#include <sstream>

namespace lci_perf {

const char* const USAGE =
    "usage: lci_perf [MEASURE...] [options]\n"
    "Measures lci on this machine, in turn with the other libraries that are installed. Without\n"
    "arguments it prints a table of the common cases in less than a minute. It starts all\n"
    "processes itself.\n"
    "\n"
    "MEASURE  latency (one way), rate (messages per second), bandwidth (by size), overlap\n"
    "  --op LIST         am (active message), sendrecv, put, get    (default: am,sendrecv)\n"
    "  --sizes LIST      8,64K or 8..64M, every power of two        (default: by measure)\n"
    "  --pairs LIST      1,2,4: pairs that run at the same time     (default: 1)\n"
    "  --threads         pairs of threads of two processes, each thread with its own device\n"
    "  --shared-device   the same with one device for all threads of a process\n"
    "  --memory KIND     host or gpu                                (default: host)\n"
    "  --transport LIST  shm,ofi,ibv, or ofi:tcp with its provider  (default: what lci chooses)\n"
    "  --placement KIND  hyperthreads, near, far, other_node, two processors as 0,1, or all kinds\n"
    "                    that this machine has                      (default: all)\n"
    "  --against LIST    ucx,openmpi,mpich,libfabric,nccl,raw; all; none   (default: all)\n"
    "  --rounds N        every library measures once per round      (default: 7)\n"
    "  --time MS         duration of each measurement               (default: 10)\n"
    "  --messages N      number of messages to send instead of that time\n"
    "  --csv F --json F --html F --svg F   write to a file; - is standard output\n"
    "  --rivals DIR      where lci_perf_ucx and the others are      (default: beside lci_perf)\n"
    "  --list            what can be measured on this machine, and why the rest cannot\n"
    "\n"
    "In the table, x 1.50 in the row of a library means that lci is 1.5 times better than that\n"
    "library; below 1 lci is worse. The value is the median of the ratios of all rounds, with the\n"
    "quartiles. R is the time that one cache line takes from one processor to the other: a lower\n"
    "bound for every message.\n"
    "Examples:  lci_perf\n"
    "           lci_perf bandwidth --op put,get --sizes 4K..64M --html bandwidth.html\n"
    "           lci_perf rate --threads --pairs 1,2,4,8 --against none\n";

namespace {

using strings = std::vector<std::string>;

strings split(const std::string& text) {
  strings parts;
  std::istringstream all(text);
  for (std::string part; std::getline(all, part, ',');) {
    if (part.empty()) throw std::invalid_argument("\"" + text + "\" has an empty part");
    parts.push_back(part);
  }
  if (parts.empty()) throw std::invalid_argument("an empty list");
  for (std::size_t at = 1; at < parts.size(); ++at)
    if (std::find(parts.begin(), parts.begin() + static_cast<std::ptrdiff_t>(at), parts[at]) !=
        parts.begin() + static_cast<std::ptrdiff_t>(at))
      throw std::invalid_argument("\"" + parts[at] + "\" is given twice");
  return parts;
}

template <class Value>
Value choose(const std::string& word, const std::map<std::string, Value>& known) {
  if (const auto found = known.find(word); found != known.end()) return found->second;
  std::string all;
  for (const auto& [name, value] : known) all += " " + name;
  throw std::invalid_argument("\"" + word + "\" is none of" + all);
}

const std::map<std::string, measure> MEASURES = {{"latency", measure::latency},
                                                 {"rate", measure::rate},
                                                 {"bandwidth", measure::bandwidth},
                                                 {"overlap", measure::overlap}};
const std::map<std::string, operation> OPERATIONS = {{"am", operation::am},
                                                     {"sendrecv", operation::sendrecv},
                                                     {"put", operation::put},
                                                     {"get", operation::get}};

std::uint64_t number(const std::string& text, std::uint64_t least, std::uint64_t most) {
  char* end = nullptr;
  const std::uint64_t value = std::strtoull(text.c_str(), &end, 10);
  if (text.empty() || text[0] < '0' || text[0] > '9' || *end != 0 || value < least || value > most)
    throw std::invalid_argument("\"" + text + "\" is not a number from " + std::to_string(least) +
                                " to " + std::to_string(most));
  return value;
}

std::uint64_t one_size(const std::string& text) {
  const std::size_t digits = text.find_first_not_of("0123456789");
  const std::string unit = digits == std::string::npos ? "" : text.substr(digits);
  const int shift =
      choose<int>(unit, {{"", 0}, {"B", 0}, {"K", 10}, {"KiB", 10}, {"M", 20}, {"MiB", 20}});
  const std::uint64_t size = number(text.substr(0, digits), 1, 1u << 30) << shift;
  if (size < 8 || size > (std::uint64_t{1} << 30))
    throw std::invalid_argument("\"" + text + "\" is not a size from 8 to 1024M");
  return size;
}

void take_numbers(arguments& out, const std::string& name, const std::string& value) {
  if (name == "--rounds") out.rounds = static_cast<int>(number(value, 1, 1000));
  if (name == "--time") out.block_ms = static_cast<double>(number(value, 1, 10'000));
  if (name == "--messages") out.messages = number(value, 1, 1'000'000'000);
  if (name == "--pairs") out.pairs = parse_numbers(value, 1, MOST_SEATS / 2);
}

using takers = std::map<std::string, std::function<void(arguments&, const std::string&)>>;

const takers& valued() {
  static const takers all = {
      {"--op",
       [](arguments& out, const std::string& value) {
         out.operations.clear();  // the last --op counts, as of every option
         for (const std::string& one : split(value))
           out.operations.push_back(choose(one, OPERATIONS));
       }},
      {"--sizes", [](arguments& out, const std::string& value) { out.sizes = parse_sizes(value); }},
      {"--memory",
       [](arguments& out, const std::string& value) {
         out.is_gpu = choose<bool>(value, {{"host", false}, {"gpu", true}});
       }},
      {"--transport",
       [](arguments& out, const std::string& value) { out.transports = split(value); }},
      {"--placement", [](arguments& out, const std::string& value) { out.placement = value; }},
      {"--against", [](arguments& out, const std::string& value) { out.against = split(value); }},
      {"--csv", [](arguments& out, const std::string& value) { out.csv = value; }},
      {"--json", [](arguments& out, const std::string& value) { out.json = value; }},
      {"--html", [](arguments& out, const std::string& value) { out.html = value; }},
      {"--svg", [](arguments& out, const std::string& value) { out.svg = value; }},
      {"--rivals", [](arguments& out, const std::string& value) { out.rivals = value; }}};
  return all;
}

bool take_flag(arguments& out, const std::string& word) {
  if (word == "--threads") return out.is_threads = true;
  if (word == "--shared-device") return out.is_threads = out.is_shared = true;
  if (word == "--list") return out.is_list = true;
  if (word == "--help" || word == "-h") return out.is_help = true;
  return false;
}

}  // namespace

arguments parse(const strings& words) {
  arguments out;
  for (std::size_t at = 0; at < words.size(); ++at) {
    const std::string& word = words[at];
    if (word.rfind("-", 0) != 0) {
      const measure what = choose(word, MEASURES);
      if (std::find(out.measures.begin(), out.measures.end(), what) != out.measures.end())
        throw std::invalid_argument("\"" + word + "\" is given twice");
      out.measures.push_back(what);
      continue;
    }
    if (take_flag(out, word)) continue;
    const std::size_t equals = word.find('=');
    const std::string name = word.substr(0, equals);
    const bool is_number =
        name == "--rounds" || name == "--time" || name == "--messages" || name == "--pairs";
    const auto taker = valued().find(name);
    if (arguments unused; equals != std::string::npos && take_flag(unused, name))
      throw std::invalid_argument(name + " takes no value");
    if (!is_number && taker == valued().end())
      throw std::invalid_argument("unknown option " + name + "; --help lists all");
    if (equals == std::string::npos && at + 1 >= words.size())
      throw std::invalid_argument(name + " needs a value");
    const std::string value = equals == std::string::npos ? words[++at] : word.substr(equals + 1);
    try {
      is_number ? take_numbers(out, name, value) : taker->second(out, value);
    } catch (const std::invalid_argument& problem) {
      throw std::invalid_argument(name + ": " + problem.what());
    }
  }
  if (out.against.empty()) out.against = {"all"};
  return out;
}

std::vector<int> parse_numbers(const std::string& text, int least, int most) {
  std::vector<int> numbers;
  for (const std::string& part : split(text))
    numbers.push_back(static_cast<int>(
        number(part, static_cast<std::uint64_t>(least), static_cast<std::uint64_t>(most))));
  return numbers;
}

std::vector<std::uint64_t> parse_sizes(const std::string& text) {
  std::vector<std::uint64_t> sizes;
  for (const std::string& part : split(text)) {
    const std::size_t dots = part.find("..");
    const std::uint64_t first = one_size(part.substr(0, dots));
    const std::uint64_t last = dots == std::string::npos ? first : one_size(part.substr(dots + 2));
    if (last < first) throw std::invalid_argument("\"" + part + "\" goes down");
    for (std::uint64_t size = first; size <= last; size *= 2) sizes.push_back(size);
  }
  std::sort(sizes.begin(), sizes.end());
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  return sizes;
}

std::string size_text(std::uint64_t bytes) {
  if (bytes >= (1u << 20) && bytes % (1u << 20) == 0) return std::to_string(bytes >> 20) + " MiB";
  if (bytes >= (1u << 10) && bytes % (1u << 10) == 0) return std::to_string(bytes >> 10) + " KiB";
  return std::to_string(bytes) + " B";
}

const char* name_of(measure what) {
  for (const auto& [name, value] : MEASURES)
    if (value == what) return name.c_str();
  return "";
}

const char* name_of(operation op) {
  for (const auto& [name, value] : OPERATIONS)
    if (value == op) return name.c_str();
  return "";
}

}  // namespace lci_perf
