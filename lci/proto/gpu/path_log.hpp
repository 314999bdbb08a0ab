// Counts which way GPU memory goes, so that a detour shows. Says at log level info which way it is
// for each rank and why, each way and reason once, and the sums at the end.
// Owned by gpu::common. Threads: shared. Always true: where the level is off, a call is one
// addition and one load.
#pragma once

#include <atomic>
#include <cstddef>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "lci/base/log.hpp"

namespace lci::proto::gpu {

class path_log {
 public:
  static constexpr std::size_t MOST = 1000;  // lines; later ones are not said

  path_log() = default;
  ~path_log();
  path_log(const path_log&) = delete;
  path_log& operator=(const path_log&) = delete;

  // Lines are said in other words, which the caller makes of those of rank `me`. Before the first
  // of them.
  void say_by(std::string (*words)(std::string_view line, int me), int me) noexcept {
    words_ = words;
    me_ = me;
  }

  // Bytes for or from `rank` are copied by one engine from end to end.
  void direct(int rank) noexcept {
    direct_.fetch_add(1, std::memory_order_relaxed);
    if (is_heard()) tell(rank, {});
  }
  // They are not, for this reason.
  void through_host(int rank, std::string_view why) noexcept {
    through_host_.fetch_add(1, std::memory_order_relaxed);
    if (is_heard()) tell(rank, why);
  }

  // They could be, but are not at present.
  void by_choice(int rank, std::string_view why) noexcept {
    by_choice_.fetch_add(1, std::memory_order_relaxed);
    if (is_heard()) tell(rank, why);
  }

  // Decisions for the one way and for the others.
  std::size_t count_direct() const noexcept { return direct_.load(std::memory_order_relaxed); }
  std::size_t count_through_host() const noexcept {
    return through_host_.load(std::memory_order_relaxed);
  }
  std::size_t count_by_choice() const noexcept {
    return by_choice_.load(std::memory_order_relaxed);
  }

 private:
  static bool is_heard() noexcept {
    return base::log::global().enabled(static_cast<int>(base::log::level::info));
  }
  void tell(int rank, std::string_view why_not) noexcept;

  // Relaxed: sums, which order nothing.
  std::atomic<std::size_t> direct_{0}, through_host_{0}, by_choice_{0};
  std::string (*words_)(std::string_view, int) = nullptr;
  int me_ = 0;        // for words_
  std::mutex mutex_;  // guards said_
  std::set<std::pair<int, std::size_t>> said_;
};

}  // namespace lci::proto::gpu
