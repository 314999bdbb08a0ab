// A network that registers nothing, and one who tells of unmapping when a test says so. Threads:
// fake_network is shared, as the cache calls it; fake_news is the test's.
#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cerrno>
#include <functional>
#include <map>
#include <mutex>
#include <vector>

#include "lci/mem/region_cache.hpp"

namespace lci::test {

inline constexpr std::size_t PAGE = 4096;

class fake_network final : public mem::cache_registrar {
 public:
  answer register_range(const mem::cache_range& what) override {
    if (on_register) on_register(what);
    const std::lock_guard lock(mutex_);
    asked.push_back(what);
    answer out;
    if (fail_next > 0 && --fail_next == 0) out.error = fail_with;
    if (live_.size() >= capacity) out.error = full_error;
    if (refuses && refuses(what)) out.error = EFAULT;
    if (out.error != 0) {
      out.why_not = "as the test wants it";
      return out;
    }
    out.serves_all = !is_reduced || !is_reduced(what);
    out.handle = ++last_;
    live_[out.handle] = what;
    return out;
  }
  void deregister_range(std::uint64_t handle) noexcept override {
    const std::lock_guard lock(mutex_);
    EXPECT_EQ(live_.erase(handle), 1u) << "registration " << handle << " ended twice";
    gone.push_back(handle);
  }
  bool is_live(std::uint64_t handle) {
    const std::lock_guard lock(mutex_);
    return live_.count(handle) != 0;
  }
  std::size_t live() {
    const std::lock_guard lock(mutex_);
    return live_.size();
  }

  std::vector<mem::cache_range> asked;  // attempts, in their order
  std::vector<std::uint64_t> gone;
  std::size_t capacity = ~std::size_t{0};  // registrations that fit
  int full_error = ENOMEM;
  int fail_next = 0;  // the attempt of that number from now on fails
  int fail_with = EIO;
  std::function<bool(const mem::cache_range&)> refuses;
  std::function<bool(const mem::cache_range&)> is_reduced;
  std::function<void(const mem::cache_range&)> on_register;

 private:
  std::mutex mutex_;
  std::map<std::uint64_t, mem::cache_range> live_;
  std::uint64_t last_ = 0;
};

class fake_news final : public mem::unmap_source {
 public:
  std::string start(mem::unmap_listener& to) override {
    if (why_not.empty()) listener = &to;
    return why_not;
  }
  void stop(mem::unmap_listener& to) noexcept override {
    EXPECT_EQ(listener, &to);
    listener = nullptr;
  }
  void tell(const void* begin, std::size_t size) {
    listener->on_unmap(reinterpret_cast<std::uintptr_t>(begin), size);
  }

  std::string why_not;
  mem::unmap_listener* listener = nullptr;
};

// Addresses without anything behind them: the cache never looks at what it registers.
inline std::uintptr_t page(std::size_t number) { return (std::uintptr_t{1} << 40) + number * PAGE; }
inline const void* address(std::size_t number) {
  return reinterpret_cast<const void*>(page(number));
}
inline mem::cache_range pages(std::size_t first, std::size_t count) {
  return {page(first), page(first + count), mem::mem_kind::host, 0};
}
inline mem::cache_range device_bytes(std::size_t first, std::size_t size, std::uint64_t id) {
  return {page(0) + first, page(0) + first + size, mem::mem_kind::device, id};
}

class cache_world {
 public:
  explicit cache_world(mem::cache_limits limits = {}) : limits_(limits) {}

  // Registers and lets go; answers the network's handle.
  std::uint64_t touch(const mem::cache_range& what) {
    mem::region_cache::failure why;
    mem::cache_entry* const e = cache.acquire(what, why);
    EXPECT_NE(e, nullptr) << why.error;
    if (e == nullptr) return 0;
    const std::uint64_t handle = e->handle;
    EXPECT_LE(e->range.begin, what.begin);
    EXPECT_GE(e->range.end, what.end);
    cache.release(*e);
    return handle;
  }
  mem::cache_entry& hold(const mem::cache_range& what) {
    mem::region_cache::failure why;
    mem::cache_entry* const e = cache.acquire(what, why);
    if (e == nullptr) throw std::runtime_error("not registered");
    return *e;
  }

 private:
  const mem::cache_limits limits_;

 public:
  fake_network network;
  fake_news news;
  mem::region_cache cache{network, limits_, &news};
};

}  // namespace lci::test
