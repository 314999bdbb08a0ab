// The secrets of the URLs that a hub has given out, and how long and how often each may be used.
// Owned by the hub. Threads: single, with it. Always true: those that are over are refused, and are
// known for a while, so that a holder of one can be told why.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "lci/boot/seal.hpp"
#include "lci/transport/setup_options.hpp"

namespace lci::transports {

class invitations {
 public:
  static constexpr std::size_t MOST = 1024;     // valid at a time
  static constexpr std::size_t MOST_OVER = 64;  // remembered

  // time: nothing: without end. uses: 0: any number. Throws backend_error if there are MOST.
  void add(const boot::job_key& key, clock::time_point now, std::optional<clock::duration> time,
           int uses);
  const std::vector<boot::job_key>& keys() const noexcept { return keys_; }
  // The holder of keys()[which] wants to come in. Answers why it cannot.
  std::string use(std::size_t which, clock::time_point now);
  void clear() noexcept;

 private:
  struct invitation {
    std::optional<clock::time_point> due;
    int uses = 0;      // left; -1: any number
    std::string over;  // why it is not valid any more
  };
  void expire(clock::time_point now);
  void forget_some();

  std::vector<boot::job_key> keys_;
  std::vector<invitation> all_;  // by index of keys_
};

}  // namespace lci::transports
