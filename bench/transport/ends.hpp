// Two ends with memory of their own, and what is measured between them.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>

#include "lci/errors.hpp"
#include "lci/transport.hpp"

namespace transport_bench {

inline double now_us() {
  return std::chrono::duration<double, std::micro>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// One end: its memory, and the other's once it is known.
struct end {
  end(const lci::transport_options& options, void* bytes, std::size_t size)
      : link(options), memory(bytes, size) {}
  lci::transport link;
  lci::memory memory;
};

// The side that answers: a notification back for each that comes, or for the last of a stream,
// which has tag 1. Tag 2 ends it.
inline void answer(end& at, const lci::remote_buffer& back) {
  lci::notification note;
  for (;;) {
    try {
      note = at.link.wait_for_write();
    } catch (const lci::peer_failure_error&) {
      return;
    }
    if (note.tag == 2) return;
    if (note.tag == 3) continue;
    const std::size_t size = note.tag == 1 ? 8 : back.size();
    at.link.write(at.memory.view(0, size), back.slice(0, size), true);
  }
}

inline double stream(end& at, const lci::remote_buffer& there, int rounds) {
  const double start = now_us();
  lci::transfer last;
  for (int i = 0; i < rounds; ++i) {
    const lci::transfer one =
        at.link.write(at.memory.view(0, there.size()), there, true, i + 1 == rounds ? 1 : 3);
    if (last.is_valid()) last.get();
    last = one;
  }
  at.link.wait_for_write();
  last.get();
  return (now_us() - start) / rounds;
}

inline std::string way_of(lci::transport& one) {
  const std::string text = one.describe();
  const std::size_t at = text.find("provider ");
  return at == std::string::npos ? text : text.substr(at + 9, text.find(',', at) - at - 9);
}

}  // namespace transport_bench
