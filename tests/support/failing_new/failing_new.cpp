#include "tests/support/failing_new/failing_new.hpp"

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>
#include <utility>

namespace lci::test {
namespace {

thread_local constinit std::uint64_t fail_in = 0;  // calls until the one that fails; 0: none will
thread_local constinit bool has_fired = false;
thread_local constinit std::uint64_t calls = 0;
thread_local constinit int spared = 0;
using watcher_call = void (*)(void* with);
thread_local constinit watcher_call watcher = nullptr;
thread_local constinit void* watcher_with = nullptr;
constinit std::atomic<long> live{0};  // statistics, relaxed

void watch() noexcept {
  if (watcher == nullptr) return;
  const watcher_call call = std::exchange(watcher, nullptr);
  call(watcher_with);
  watcher = call;
}

void* allocate(std::size_t size, std::size_t align) noexcept {
  watch();
  if (spared == 0) ++calls;
  if (spared == 0 && fail_in != 0 && --fail_in == 0) {
    has_fired = true;
    return nullptr;
  }
  void* const p = align <= alignof(std::max_align_t)
                      ? std::malloc(size != 0 ? size : 1)
                      : std::aligned_alloc(align, (size + align - 1) / align * align);
  if (p != nullptr) live.fetch_add(1, std::memory_order_relaxed);
  return p;
}

[[maybe_unused]] void release(void* p) noexcept {
  if (p != nullptr) {
    watch();
    live.fetch_sub(1, std::memory_order_relaxed);
  }
  std::free(p);
}

[[maybe_unused]] void* allocate_or_throw(std::size_t size, std::size_t align) {
  if (void* const p = allocate(size, align)) return p;
  throw std::bad_alloc();
}

}  // namespace

fail_nth_new::fail_nth_new(std::uint64_t n) noexcept {
  has_fired = false;
  calls = 0;
  fail_in = n;
}
fail_nth_new::~fail_nth_new() { fail_in = 0; }
bool fail_nth_new::fired() const noexcept { return has_fired; }
std::uint64_t fail_nth_new::count() const noexcept { return calls; }
on_each_new::on_each_new(void (*see)(void* with), void* with) noexcept {
  watcher = see;
  watcher_with = with;
}
on_each_new::~on_each_new() { watcher = nullptr; }
void pause_failing_new() noexcept { ++spared; }
void resume_failing_new() noexcept { --spared; }
long live_news() noexcept { return live.load(std::memory_order_relaxed); }

}  // namespace lci::test

extern "C" __attribute__((visibility("default"))) void lci_spare_from_failing_new(
    int change) noexcept {
  lci::test::spared += change;
}

#if !defined(__clang__) || !LCI_TEST_TSAN
// The array forms of the standard library call these. Default visibility: shared libraries have to
// find them.
#define REPLACES __attribute__((visibility("default")))
REPLACES void* operator new(std::size_t size) { return lci::test::allocate_or_throw(size, 1); }
REPLACES void* operator new(std::size_t size, std::align_val_t align) {
  return lci::test::allocate_or_throw(size, static_cast<std::size_t>(align));
}
REPLACES void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  return lci::test::allocate(size, 1);
}
REPLACES void* operator new(std::size_t size, std::align_val_t align,
                            const std::nothrow_t&) noexcept {
  return lci::test::allocate(size, static_cast<std::size_t>(align));
}
REPLACES void operator delete(void* p) noexcept { lci::test::release(p); }
REPLACES void operator delete(void* p, std::size_t) noexcept { lci::test::release(p); }
REPLACES void operator delete(void* p, std::align_val_t) noexcept { lci::test::release(p); }
REPLACES void operator delete(void* p, std::size_t, std::align_val_t) noexcept {
  lci::test::release(p);
}
REPLACES void operator delete(void* p, const std::nothrow_t&) noexcept { lci::test::release(p); }
REPLACES void operator delete(void* p, std::align_val_t, const std::nothrow_t&) noexcept {
  lci::test::release(p);
}
#endif
