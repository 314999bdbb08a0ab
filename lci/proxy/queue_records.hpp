// The records that handles of GPU queues name: small, and kept when the queue has given its slots
// back, so that a freed handle finds that out and no other memory. Callers: side. Threads: single.
// Always true: a record is handed out once, since a handle carries no generation.
#pragma once

#include <algorithm>
#include <cstddef>
#include <new>
#include <utility>
#include <vector>

#include "lci/gpu/record.hpp"
#include "lci/proxy/block.hpp"

namespace lci::proxy {

class queue_records {
 public:
  static constexpr std::size_t PAGE = 4096;
  static constexpr std::size_t EACH = 64;
  static_assert(sizeof(gpu::queue_record) <= EACH);

  // In memory that the kernels of that GPU read, or NO_GPU. Throws as block::shared() does.
  gpu::queue_record* take(int gpu) {
    auto at = std::find_if(pages_.begin(), pages_.end(), [&](const page& each) {
      return each.gpu == gpu && each.used + EACH <= PAGE;
    });
    if (at == pages_.end()) {
      pages_.reserve(pages_.size() + 1);
      pages_.push_back({block::shared(PAGE, gpu), gpu, 0});
      at = pages_.end() - 1;
    }
    auto* const made = ::new (at->memory.at(at->used)) gpu::queue_record;
    at->used += EACH;
    return made;
  }
  // Hands each page over: kernels may still be reading.
  template <class Fn>
  void leave_all(Fn&& leave) {
    for (page& each : pages_) leave(std::move(each.memory));
    pages_.clear();
  }
  std::size_t pages() const noexcept { return pages_.size(); }

 private:
  struct page {
    block memory;
    int gpu;
    std::size_t used;
  };
  std::vector<page> pages_;
};

}  // namespace lci::proxy
