// plan: what one rank does in one collective, written down as a list of steps before anything is
// sent.
//
// Owns: the steps and the scratch memory that they name; both live as long as the plan does. User
// buffers are only pointed to. Called by: the algorithms (barrier.cpp, broadcast.cpp, ...), which
// write plans, and run.cpp, which carries them out. Because writing a plan touches no network,
// tests can carry out the plans of many ranks in one process. Threads: single; written by one
// thread, then handed to run() and immutable. Always true: steps between two joins may happen in
// any order, except that copies and combines happen at their place in the list; the k-th send from
// a to b meets the k-th receive of b from a, so both sides number their messages by counting and no
// algorithm has to.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace lci::coll {

// A pair exchanges fewer than 2^NUMBER_BITS messages in one collective.
inline constexpr int NUMBER_BITS = 24;

struct step_t {
  enum class kind_t : uint8_t {
    send,     // `amount` bytes at `from` to `peer`
    recv,     // `amount` bytes into `into` from `peer`
    join,     // go on when every transfer above is complete
    copy,     // `amount` bytes from `from` into `into`
    combine,  // into[i] = from[i] op into[i] for `amount` items
  };
  kind_t kind = kind_t::join;
  int peer = -1;        // send and recv only
  uint32_t number = 0;  // send and recv: how many earlier messages this pair exchanged that way
  const void* from = nullptr;
  void* into = nullptr;
  size_t amount = 0;  // bytes, or items for combine
};

class plan_t {
 public:
  // `rank` of `nranks` processes writes this plan.
  plan_t(int rank, int nranks);

  int me() const { return me_; }
  int n() const { return n_; }
  // The rank `distance` places further on the ring of all ranks; negative distances go back.
  int neighbour(int distance) const;

  void send(int peer, const void* from, size_t size);
  void recv(int peer, void* into, size_t size);
  void join();
  // Nothing to do for equal pointers or size 0; otherwise the two must not overlap.
  void copy(void* into, const void* from, size_t size);
  void combine(const void* from, void* into, size_t items);
  // Memory for partial results, aligned for every plain type; freed with the plan.
  std::byte* scratch(size_t size);

  const std::vector<step_t>& steps() const { return steps_; }

 private:
  int me_;
  int n_;
  std::vector<step_t> steps_;
  std::vector<uint32_t> sent_, received_;  // per peer: messages so far, the next one's number
  std::vector<std::unique_ptr<std::byte[]>> scratch_;
};

}  // namespace lci::coll
