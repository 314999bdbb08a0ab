#include "tests/support/alloc_counter.hpp"

#include <cerrno>
#include <cstddef>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define OWN_MALLOC 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define OWN_MALLOC 0
#endif
#endif
#ifndef OWN_MALLOC
#define OWN_MALLOC 1
#endif

namespace lci::test {
namespace {

// initial-exec: the general form may itself call malloc at a thread's first access.
#define MALLOC_TLS thread_local __attribute__((tls_model("initial-exec")))
MALLOC_TLS constinit std::uint64_t allocations = 0;
MALLOC_TLS constinit std::uint64_t frees = 0;
MALLOC_TLS constinit std::uint64_t fail_in =
    0;  // allocations until the one that fails; 0: none will
MALLOC_TLS constinit bool failed = false;

#if OWN_MALLOC
// Counts one allocation; false when this is the one that has to fail.
bool admit() noexcept {
  ++allocations;
  if (fail_in == 0 || --fail_in != 0) return true;
  failed = true;
  errno = ENOMEM;
  return false;
}
#endif

}  // namespace

bool has_alloc_counter() noexcept { return OWN_MALLOC != 0; }

alloc_counter::alloc_counter() noexcept
    : allocations_at_start_(test::allocations), frees_at_start_(test::frees) {}
std::uint64_t alloc_counter::allocations() const noexcept {
  return test::allocations - allocations_at_start_;
}
std::uint64_t alloc_counter::frees() const noexcept { return test::frees - frees_at_start_; }

fail_nth_allocation::fail_nth_allocation(std::uint64_t n) noexcept {
  failed = false;
  fail_in = n;
}
fail_nth_allocation::~fail_nth_allocation() { fail_in = 0; }
bool fail_nth_allocation::fired() const noexcept { return failed; }

}  // namespace lci::test

#if OWN_MALLOC
// The C library's own functions under the names that it keeps for replacements like this one.
extern "C" {
void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);
void __libc_free(void*);

// Default visibility: shared libraries have to find these instead of the C library's.
#define REPLACES __attribute__((visibility("default")))
REPLACES void* malloc(std::size_t size) {
  return lci::test::admit() ? __libc_malloc(size) : nullptr;
}
REPLACES void* calloc(std::size_t n, std::size_t size) {
  return lci::test::admit() ? __libc_calloc(n, size) : nullptr;
}
REPLACES void* realloc(void* old, std::size_t size) {
  return lci::test::admit() ? __libc_realloc(old, size) : nullptr;
}
REPLACES void* memalign(std::size_t align, std::size_t size) {
  return lci::test::admit() ? __libc_memalign(align, size) : nullptr;
}
REPLACES void* aligned_alloc(std::size_t align, std::size_t size) { return memalign(align, size); }
REPLACES int posix_memalign(void** out, std::size_t align, std::size_t size) {
  if (align % sizeof(void*) != 0 || (align & (align - 1)) != 0) return EINVAL;
  void* p = memalign(align, size);
  if (p == nullptr) return ENOMEM;
  *out = p;
  return 0;
}
REPLACES void free(void* p) {
  if (p == nullptr) return;
  ++lci::test::frees;
  __libc_free(p);
}
}
#endif
