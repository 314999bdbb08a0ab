// The page that a process publishes: a memory file with one slot for each handle that is out.
// Importers take its descriptor out of the owner (or are given it) and compare. One file has both
// ends: `published_page` is the owner's, `seen_page` an importer's. Callers: exports, owner_link.
// Threads: the owner's under the lock of exports; an importer's is immutable.
// Always true: the file is sealed, so it keeps its size and only its owner writes it: an importer
// that reads it never faults. A slot is written before its handle is given out; it is emptied
// before the descriptor that it names is closed, so an importer that finds it unchanged after
// taking a descriptor has taken the right one. Both is ordered by the kernel's lock of the owner's
// descriptors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "lci/base/descriptor.hpp"
#include "lci/share/handle.hpp"

namespace lci::share {

inline constexpr std::uint32_t SLOTS = 4096;

// How a handle compares with the slot that it names.
enum class verdict { same, stale, forged };

// The mapping of such a file.
class page_view {
 public:
  page_view() = default;
  page_view(int fd, bool writable);  // throws buffer_error: no_room
  page_view(page_view&& other) noexcept : at_(std::exchange(other.at_, nullptr)) {}
  page_view& operator=(page_view&& other) noexcept;
  ~page_view();
  std::byte* at() const noexcept { return at_; }
  verdict compare(const handle& h) const noexcept;

 private:
  std::byte* at_ = nullptr;
};

class published_page {
 public:
  published_page();  // throws buffer_error: no_room
  int fd() const noexcept { return fd_.get(); }
  std::uint64_t serial() const noexcept { return serial_; }
  // Number of the next handle.
  std::uint64_t next_serial() noexcept { return ++serial_; }
  void write(const handle& h) noexcept;
  void clear(std::uint32_t slot) noexcept;
  const page_view& view() const noexcept { return view_; }

 private:
  base::descriptor fd_;
  page_view view_;
  std::uint64_t serial_ = 0;  // of the last handle
};

// Of another process. Throws buffer_error: forged, when the descriptor is not such a page.
page_view open_page(int fd);

}  // namespace lci::share
