// Host memory over TCP by turns with a plain socket.
#pragma once

#include <cstddef>

namespace transport_bench {

// Streams of writes over libfabric, where that uses sockets, and of as many bytes through a plain
// socket of the loopback, one after the other, seven times for each size of 1 MiB, 4 MiB ...
// `largest`. Prints a JSON object for each: the medians, and that of the ratios, above 1 where the
// transport is faster. Where libfabric uses something else it says so on standard error.
void against_socket(std::size_t largest, bool is_quick);

}  // namespace transport_bench
