#include "tools/lcrun/binding.hpp"

#include <cerrno>
#include <cstdlib>
#include <fstream>

#include "lci/boot/fd.hpp"
#include "lci/errors.hpp"

namespace lcrun {

namespace {

// The hardware threads of the core to which `processor` belongs; itself if the kernel does not say.
cpu_set_t core_of(int processor) {
  std::ifstream in("/sys/devices/system/cpu/cpu" + std::to_string(processor) +
                   "/topology/thread_siblings_list");
  std::string text;
  if (!std::getline(in, text)) text = std::to_string(processor);
  return parse_processors(text);
}

std::vector<cpu_set_t> list_cores() {
  cpu_set_t allowed;
  if (::sched_getaffinity(0, sizeof allowed, &allowed) != 0)
    throw lci::backend_error("--bind core: sched_getaffinity failed: " +
                             lci::boot::errno_text(errno));
  std::vector<cpu_set_t> cores;
  cpu_set_t left = allowed;
  for (int p = 0; p < CPU_SETSIZE; ++p) {
    if (!CPU_ISSET(p, &left)) continue;
    cpu_set_t core = core_of(p);
    CPU_AND(&core, &core, &left);
    CPU_SET(p, &core);
    CPU_XOR(&left, &left, &core);
    cores.push_back(core);
  }
  return cores;
}

}  // namespace

std::vector<cpu_set_t> deal_cores(int ranks) {
  const std::vector<cpu_set_t> cores = list_cores();
  const auto n = static_cast<std::size_t>(ranks);
  std::vector<cpu_set_t> out(n);
  for (std::size_t r = 0; r < n; ++r) {
    CPU_ZERO(&out[r]);
    std::size_t from = r % cores.size(), to = from + 1;
    if (n <= cores.size()) {
      from = r * cores.size() / n;
      to = (r + 1) * cores.size() / n;
    }
    for (std::size_t c = from; c < to; ++c) CPU_OR(&out[r], &out[r], &cores[c]);
  }
  return out;
}

cpu_set_t parse_processors(const std::string& text) {
  cpu_set_t out;
  CPU_ZERO(&out);
  const char* at = text.c_str();
  while (*at >= '0' && *at <= '9') {
    char* end = nullptr;
    const long first = std::strtol(at, &end, 10);
    long last = first;
    if (*end == '-') last = std::strtol(end + 1, &end, 10);
    for (long p = first; p <= last && p < CPU_SETSIZE; ++p)
      CPU_SET(static_cast<std::size_t>(p), &out);
    at = *end == ',' ? end + 1 : end;
  }
  return out;
}

}  // namespace lcrun
