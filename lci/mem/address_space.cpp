#include "lci/mem/address_space.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

namespace lci::mem {

namespace {

// The number of mapped pages, or 0 if the kernel does not report it.
std::size_t mapped_pages() noexcept {
  std::FILE* const file = std::fopen("/proc/self/statm", "re");
  if (file == nullptr) return 0;
  unsigned long pages = 0;
  const int found = std::fscanf(file, "%lu", &pages);
  std::fclose(file);
  return found == 1 ? pages : 0;
}

}  // namespace

address_space find_address_space() noexcept {
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return {};
  return {static_cast<std::size_t>(limit.rlim_cur),
          mapped_pages() * static_cast<std::size_t>(sysconf(_SC_PAGESIZE))};
}

std::size_t fair_reserve(const address_space& now, int ranks, std::size_t least,
                         std::size_t most) noexcept {
  if (now.limit == 0) return most;
  const std::size_t left = now.limit - std::min(now.limit, now.used);
  return std::clamp(left / 4 / static_cast<std::size_t>(std::max(ranks, 1)), least, most);
}

std::string limit_text(const address_space& now) {
  if (now.limit == 0) return "";
  return "; the address space of this process is limited to " + std::to_string(now.limit >> 20) +
         " MiB (ulimit -v, RLIMIT_AS), of which " + std::to_string(now.used >> 20) +
         " MiB are in use";
}

}  // namespace lci::mem
