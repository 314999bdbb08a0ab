// Says at log level info which way GPU memory goes to each rank and why, each way and reason once.
// Owned by core. Threads: shared. Always true: where the level is off, a call is one load.
#pragma once

#include <cstddef>
#include <mutex>
#include <set>
#include <string_view>
#include <utility>

#include "lci/base/log.hpp"

namespace lci::proto {

class path_news {
 public:
  static constexpr std::size_t MOST = 1000;  // lines; later ones are not said

  // Bytes for or from `rank` are copied by one engine from end to end.
  void direct(int rank) noexcept {
    if (is_heard()) tell(rank, {});
  }
  // They are not, for this reason.
  void through_host(int rank, std::string_view why) noexcept {
    if (is_heard()) tell(rank, why);
  }

 private:
  static bool is_heard() noexcept {
    return base::log::global().enabled(static_cast<int>(base::log::level::info));
  }
  void tell(int rank, std::string_view why_not) noexcept;

  std::mutex mutex_;  // guards said_
  std::set<std::pair<int, std::size_t>> said_;
};

}  // namespace lci::proto
