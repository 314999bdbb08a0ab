// A message between cards of two ranks, as the sink of a device gets it. Callers: the tests of this
// folder. Threads: as those. Always true: it lives for as long as what arrives() said is used.
#pragma once

#include <cstdint>

#include "lci/net/backend.hpp"
#include "lci/wqe/layout.hpp"
#include "tests/unit/device/pair.hpp"

namespace lci::test {

// A request that is one part, as it comes from the network.
class message {
 public:
  message(wqe::opcode op, std::uint32_t from_qpn, std::uint32_t ticket, std::uint32_t length,
          std::uint32_t offset = 0)
      : words_{0x4c435158, static_cast<std::uint32_t>(op),
               pair::PEER, from_qpn,
               0,          length,
               offset,     ticket,
               0} {
    for (std::uint32_t& w : words_) w = wqe::be32(w);
  }
  net::arrival arrives(int rank = 0) const {
    net::arrival a;
    a.rank = rank;
    a.data = reinterpret_cast<const std::byte*>(words_);
    a.size = sizeof(words_);
    return a;
  }

 private:
  std::uint32_t words_[9];
};

}  // namespace lci::test
