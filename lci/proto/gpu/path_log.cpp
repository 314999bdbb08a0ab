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
  } catch (const std::bad_alloc&) {
    return;  // a line less
  }
  if (why_not.empty())
    base::log::info("proto", "GPU memory and rank %d: copied directly", rank);
  else
    base::log::info("proto", "GPU memory and rank %d: through host memory, %.*s", rank,
                    static_cast<int>(why_not.size()), why_not.data());
}

}  // namespace lci::proto::gpu
