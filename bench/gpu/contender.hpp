// One way to move data from GPU memory of rank 0 to GPU memory of rank 1. Both ranks call the same
// functions at the same time; rank 0's return value is the result. Threads: single.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "bench/gpu/gpu.hpp"
#include "bench/micro/session.hpp"

namespace bench {

class contender {
 public:
  virtual ~contender() = default;
  virtual const char* who() const = 0;
  // Times in us from the start of a message until the processor of the other side knows that it has
  // arrived: half a round trip each.
  virtual std::vector<double> one_way_us(std::size_t size, int rounds) = 0;
  // Time in us from the start of `count` messages until the last one has arrived.
  virtual double window_us(std::size_t size, int count) = 0;
};

// For pair::signal(), whose numbers only grow; the same on both ranks.
inline std::uint64_t next_signal() {
  static std::uint64_t last = 0;
  return ++last;
}

// The most that is under way: no size is larger.
struct limits {
  std::size_t largest = std::size_t{256} << 20;
  int window = 64;
};

std::unique_ptr<contender> make_lci_send(session& run, gpu& here, const limits& most);
std::unique_ptr<contender> make_lci_put(session& run, gpu& here, const limits& most);
// Null, with the reason in `why`, if it is unavailable. Both ranks get the same result.
std::unique_ptr<contender> make_memcpy_peer(session& run, gpu& here, const limits& most,
                                            std::string& why);
std::unique_ptr<contender> make_nccl(session& run, gpu& here, const limits& most, std::string& why);

// Whether no rank has a problem; else `why` is the problem of the first rank that has one.
bool all_agree(session& run, std::string& why);

}  // namespace bench
