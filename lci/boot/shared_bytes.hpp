// Bytes that all processes of a host receive, in memory that they share: a file without a name,
// whose descriptor travels over a local socket. A copy for each of n processes of what n processes
// have said would be n * n (docs/decisions/0057-start-of-many-ranks.md). Callers: kv service
// (share), kv member (shared_bytes). Threads: single. Always true: what can be read through a
// shared_bytes never changes, whatever the other processes do.
#pragma once

#include <cstddef>
#include <string_view>

#include "lci/boot/fd.hpp"

namespace lci::boot {

// A file with these bytes that can no longer change. Empty: the system grants none, and errno says
// why.
base::descriptor share(std::string_view bytes) noexcept;

class shared_bytes {
 public:
  // The first `size` bytes, at least 1. Throws backend_error if the file has fewer, could still
  // change, or cannot be mapped.
  shared_bytes(const base::descriptor& file, std::size_t size);
  ~shared_bytes();
  shared_bytes(const shared_bytes&) = delete;
  shared_bytes& operator=(const shared_bytes&) = delete;

  std::string_view view() const noexcept { return {static_cast<const char*>(at_), size_}; }

 private:
  void* at_;
  std::size_t size_;
};

}  // namespace lci::boot
