// What a rank says of itself before the first message: which network it has opened, where, and
// which words it speaks. Ranks that would not understand each other find out here, and not by
// messages that make no sense. Callers: net_context. Threads: pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace lci::runtime {

// "4 shm ADDRESS"
std::string introduce(std::uint32_t version, std::string_view network, std::string_view address);
// The address in what `rank` said. Throws backend_error, with both sides' words, if it has opened
// another network or is of another version.
std::string address_in(std::string_view said, int rank, std::uint32_t version,
                       std::string_view network);

}  // namespace lci::runtime
