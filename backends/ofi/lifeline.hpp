// How the failure of a peer to which nothing is sent is noticed, and whose processor may be busy
// elsewhere: a connection to a socket that its process listens on and never looks at. Kernels alone
// keep it, so it breaks when the process ends, or when the host does not answer for a while:
// because it is silent, or because a busy network has lost the few questions of a kernel. TCP where
// the provider's addresses are those of hosts; else an abstract socket, for processes of one
// machine. Owned by connector. Threads: single. Always true: what is said of a rank is said once,
// unless it is watched again.
#pragma once

#include <sys/epoll.h>

#include <cstdint>
#include <vector>

#include "backends/ofi/wire.hpp"
#include "lci/base/descriptor.hpp"
#include "lci/base/unshared.hpp"

namespace lci::ofi {

class lifeline {
 public:
  // ended: it was there and is not any more. silent: its host was there and does not answer.
  // refused: no process listens there, or something between us says so. none: it could not be made;
  // nothing is known.
  enum class news : std::uint8_t { ended, silent, refused, none };

  // here: this fabric, with the name of its endpoint; where others reach it is filled in.
  // A silent host counts as failed after so many seconds: LCI_OFI_TIMEOUT, 5. Throws backend_error
  // and argument_error.
  explicit lifeline(fabric_address& here, std::size_t ranks);

  // From now on that rank is watched, or is again after news of it. False: there is no way to.
  bool watch(int rank, const fabric_address& peer) noexcept;
  // Calls f(rank, news) for what has become known.
  template <class F>
  void look(F&& f) noexcept {
    epoll_event events[BATCH];
    const int n = wait(events);
    for (int i = 0; i < n; ++i) {
      const auto rank = static_cast<int>(events[i].data.u32);
      news what = news::none;
      if (has_news(rank, events[i].events, what)) f(rank, what);
    }
  }

  // A host of which there is news that it is silent has not answered for so long, at least.
  std::uint64_t silence_ms() const noexcept {
    return static_cast<std::uint64_t>(patience_s_ - MARGIN_S) * 1000;
  }

 private:
  static constexpr int MARGIN_S = 2;
  static constexpr int BATCH = 64;
  struct watched {
    base::descriptor socket;
    bool is_up = false;
    bool was_up = false;  // now, or before it was watched again
    int error = 0;        // of the call, if it failed at once
  };
  void listen_at(const fabric_address& here);
  base::descriptor call(const fabric_address& peer, watched& one) const noexcept;
  int wait(epoll_event* events) noexcept;
  bool has_news(int rank, std::uint32_t events, news& what) noexcept;
  static news meaning_of(const watched& one, int error) noexcept;

  int patience_s_;
  std::uint64_t host_ = 0;
  base::descriptor listener_;
  base::unshared is_ours_;  // listener_: a process that is forked from this one is not watched
  base::descriptor epoll_;
  std::vector<watched> of_;  // by rank
};

}  // namespace lci::ofi
