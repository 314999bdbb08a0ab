// Memory at the start of a page, for the buffers of all that is measured. A buffer elsewhere
// touches one page more, and a copy by the kernel pays for each page: of 16 KiB between two
// processes, the same library had 11 or 16 GB/s, as its buffers happened to lie. Threads: any.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <new>

namespace lci_perf {

constexpr std::size_t PAGE = 4096;

// To be freed with std::free(). Null: there is none.
inline char* at_page(std::size_t bytes) {
  return static_cast<char*>(std::aligned_alloc(PAGE, (bytes + PAGE - 1) / PAGE * PAGE));
}

template <class T>
struct page_allocator {
  using value_type = T;
  page_allocator() = default;
  template <class U>
  page_allocator(const page_allocator<U>&) noexcept {}
  T* allocate(std::size_t n) {
    void* const memory = at_page(n * sizeof(T));
    if (memory == nullptr) throw std::bad_alloc();
    return static_cast<T*>(memory);
  }
  void deallocate(T* at, std::size_t) noexcept { std::free(at); }
  friend bool operator==(const page_allocator&, const page_allocator&) { return true; }
};

}  // namespace lci_perf
