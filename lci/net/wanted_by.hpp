// Which thread waits for what a poll has just presented: a hint from the sink to the backend, so
// that the lanes of a device can be polled where their messages are wanted. Threads: each has its
// own. Always true: a wrong hint costs time and nothing else.
#pragma once

#include <cstdint>
#include <utility>

namespace lci::net {

namespace detail {
inline constexpr std::uint32_t NO_THREAD_WANTS = ~std::uint32_t{0};
inline constinit thread_local std::uint32_t wanted_by_tls
    __attribute__((tls_model("initial-exec"))) = NO_THREAD_WANTS;
}  // namespace detail

class wanted_by {
 public:
  static constexpr std::uint32_t NOBODY = detail::NO_THREAD_WANTS;

  // The message that is being presented has met a receive that this thread (base::thread_id()) had
  // posted.
  static void note(std::uint32_t thread) noexcept { detail::wanted_by_tls = thread; }
  // The last one noted since this was asked; NOBODY: none.
  static std::uint32_t take() noexcept { return std::exchange(detail::wanted_by_tls, NOBODY); }
};

}  // namespace lci::net
