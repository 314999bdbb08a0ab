// The beginning and end of every two-process pattern over lci: pinning, runtime, shared page; and
// the posting loop that all share. Threads: one per process.
#pragma once

#include "bench/support/pair.hpp"
#include "lci.hpp"

namespace bench {

class session {
 public:
  session() : both_(start(), [](void* data, std::size_t size) { lci::broadcast(data, size, 0); }) {
    if (lci::get_rank_n() != 2) throw std::runtime_error("this pattern wants two processes");
  }
  ~session() { lci::g_runtime_fina(); }
  session(const session&) = delete;
  session& operator=(const session&) = delete;

  pair& both() { return both_; }
  int peer() const { return 1 - both_.rank(); }

 private:
  // The rank decides where to pin, and is known only once the runtime is up.
  static int start() {
    lci::g_runtime_init();
    pin(lci::get_rank_me());
    lci::barrier();
    return lci::get_rank_me();
  }
  pair both_;
};

// Posts until accepted. True: posted, so its completion object will be signalled.
template <class Op>
bool post(Op&& op) {
  for (;;) {
    const lci::status_t status = op();
    if (!status.is_retry()) return status.is_posted();
    lci::progress();
  }
}

}  // namespace bench
