#include "lci/proto/gpu/path_log.hpp"

#include <functional>
#include <new>

namespace lci::proto::gpu {

path_log::~path_log() {
  if (!is_heard() || count_direct() + count_through_host() + count_by_choice() == 0) return;
  base::log::info("proto",
                  "GPU memory: %zu times copied directly, %zu times through host memory, and %zu "
                  "times through it because that was faster",
                  count_direct(), count_through_host(), count_by_choice());
}

void path_log::tell(int rank, std::string_view why_not) noexcept {
  try {
    const std::lock_guard lock(mutex_);
    const std::pair news{rank, std::hash<std::string_view>{}(why_not)};
    if (said_.size() >= MOST || !said_.insert(news).second) return;
    std::string line = "GPU memory and rank " + std::to_string(rank) + ": ";
    line += why_not.empty() ? "copied directly" : "through host memory, " + std::string(why_not);
    if (words_ != nullptr) line = words_(line, me_);
    base::log::info("proto", "%s", line.c_str());
  } catch (const std::bad_alloc&) {  // a line less
  }
}

}  // namespace lci::proto::gpu
