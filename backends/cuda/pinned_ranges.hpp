// The host memory that pin() has made known to the driver, which kernels can read and write at the
// processor's own addresses. Callers: accelerator writes, resident asks. Threads: shared. Always
// true: a range in here is registered for as long as it is in here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>

#include "lci/base/spinlock.hpp"

namespace lci::cuda {

class pinned_ranges {
 public:
  void add(void* at, std::size_t size) {
    const std::lock_guard lock(lock_);
    ranges_[as_number(at)] = size;
  }
  // False: it was not there.
  bool remove(void* at) noexcept {
    const std::lock_guard lock(lock_);
    return ranges_.erase(as_number(at)) != 0;
  }
  // Null: none is left.
  void* any() const noexcept {
    const std::lock_guard lock(lock_);
    return ranges_.empty() ? nullptr : reinterpret_cast<void*>(ranges_.begin()->first);
  }
  bool contains(const void* at, std::size_t size) const noexcept {
    const std::uintptr_t from = as_number(at);
    const std::lock_guard lock(lock_);
    auto next = ranges_.upper_bound(from);
    if (next == ranges_.begin()) return false;
    --next;
    const std::uintptr_t offset = from - next->first;
    return offset < next->second && size <= next->second - offset;
  }

 private:
  static std::uintptr_t as_number(const void* at) noexcept {
    return reinterpret_cast<std::uintptr_t>(at);
  }
  mutable base::spinlock lock_;
  std::map<std::uintptr_t, std::size_t> ranges_;  // length by address
};

}  // namespace lci::cuda
