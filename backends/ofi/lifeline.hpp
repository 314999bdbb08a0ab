// How a peer is missed to which nothing is sent, and whose processor may be busy elsewhere: a
// connection to a socket that its process listens on and never looks at. Kernels alone keep it, so
// it breaks when the process ends or its host falls silent, and at no other time. TCP where the
// provider's addresses are those of hosts; else an abstract socket, for processes of one machine.
// Owned by connector. Threads: single. Always true: what is said of a rank is said once.
#pragma once

#include <sys/epoll.h>

#include <cstdint>
#include <vector>

#include "backends/ofi/wire.hpp"
#include "lci/base/descriptor.hpp"

namespace lci::ofi {

class lifeline {
 public:
  // ended: it was there and is not any more. refused: nobody listens there, or something between us
  // says so. none: it could not be made; nothing is known.
  enum class news : std::uint8_t { ended, refused, none };

  // here: this fabric, with the name of its endpoint; where others reach it is filled in.
  // A silent host is missed within so many seconds: LCI_OFI_TIMEOUT, 5. Throws backend_error and
  // argument_error.
  explicit lifeline(fabric_address& here, std::size_t ranks);

  // From now on that rank is watched. False: there is no way to.
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

 private:
  static constexpr int BATCH = 64;
  struct watched {
    base::descriptor socket;
    bool is_up = false;
    int error = 0;  // of the call, if it failed at once
  };
  void listen_at(const fabric_address& here);
  base::descriptor call(const fabric_address& peer, int& error) const noexcept;
  int wait(epoll_event* events) noexcept;
  bool has_news(int rank, std::uint32_t events, news& what) noexcept;

  int patience_s_;
  std::uint64_t host_ = 0;
  base::descriptor listener_;
  base::descriptor epoll_;
  std::vector<watched> of_;  // by rank
};

}  // namespace lci::ofi
