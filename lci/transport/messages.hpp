// What the two ends of a connection say to each other on its control connection, beside the set-up:
// how to send notifications, what a key is worth, that keys are withdrawn, and who polls.
//
//   every message  kind (1), then its fields in order, little endian; texts to the end
//   hello          version (4), number of the completion object for notifications (4)
//   ask            number (4), key (text)
//   answer         number (4), is it good (1), memory (8), address, size (8, 8), rights (1),
//                  milliseconds left (8; 0: no end), remote key of lci (3 x 8), reason (text)
//   withdrawn      memory (8), number (8)   the owner takes back what it has said of a memory
//   released       number of a withdrawal (8), notifications sent so far (8)
//                  and this side uses no more what that one took back
//   bell           flags (1), turn (4), heard turn (4), notifications (8)
//
// Callers: link. Threads: pure functions. Always true: what does not have exactly this form is no
// message; nothing in one is believed beyond what its receiver can check.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "lci/handles.hpp"
#include "lci/transport/doorbell.hpp"

namespace lci::transports {

struct hello {
  static constexpr std::uint32_t VERSION = 2;
  std::uint32_t version = VERSION;
  rcomp_t notes = 0;
};
struct ask {
  std::uint32_t number = 0;
  std::string key;
};
struct answer {
  std::uint32_t number = 0;
  bool is_good = false;
  std::uint64_t memory = 0;
  std::uint64_t address = 0, size = 0;  // what the key covers, in the owner's process
  std::uint8_t rights = 0;
  std::uint64_t left_ms = 0;
  rmr_t rmr;
  std::string reason;
};
struct withdrawn {
  std::uint64_t memory = 0;
  std::uint64_t number = 0;  // of the owner's withdrawals; an earlier one may be released later
};
struct released {
  std::uint64_t number = 0;
  std::uint64_t notes = 0;
};

using link_message = std::variant<hello, ask, answer, withdrawn, released, bell>;

inline constexpr std::size_t MOST_REASON = 300;  // bytes of a reason; longer ones are cut

std::string encode(const link_message& one);
// Nothing: it is no message.
std::optional<link_message> decode(std::string_view bytes);

}  // namespace lci::transports
