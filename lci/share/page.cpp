#include "lci/share/page.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <atomic>
#include <cerrno>
#include <cstring>

namespace lci::share {
namespace {

// A slot: the serial number of its last handle, whether that is still out, the handle's bytes.
constexpr std::size_t SERIAL_AT = 0, OUT_AT = 8, HANDLE_AT = 16, SLOT_BYTES = 320;
static_assert(HANDLE_AT + handle::BYTES <= SLOT_BYTES && handle::BYTES % 8 == 0);
constexpr std::size_t HEADER_BYTES = 4096, FILE_BYTES = HEADER_BYTES + SLOTS * SLOT_BYTES;
constexpr std::uint64_t MAGIC = 0x31306761705f6c63;  // in the header's first word
constexpr int SEALS = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE;

// Words of a file that another process writes: each is read once, and never torn. Relaxed: what
// orders them is said in the header; a handle that is read while it changes compares as another.
std::atomic_ref<std::uint64_t> word_at(std::byte* page, std::size_t at) noexcept {
  return std::atomic_ref(*reinterpret_cast<std::uint64_t*>(page + at));
}
std::uint64_t load(std::byte* page, std::size_t at) noexcept {
  return word_at(page, at).load(std::memory_order_relaxed);
}
void store(std::byte* page, std::size_t at, std::uint64_t value) noexcept {
  word_at(page, at).store(value, std::memory_order_relaxed);
}

std::size_t slot_at(std::uint32_t slot) noexcept { return HEADER_BYTES + slot * SLOT_BYTES; }

[[noreturn]] void refuse(const char* call) {
  throw buffer_error(buffer_fault::no_room, std::string("the page of shared buffers: ") + call +
                                                " failed: " + std::strerror(errno));
}

}  // namespace

page_view::page_view(int fd, bool writable) {
  void* const at =
      mmap(nullptr, FILE_BYTES, writable ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED, fd, 0);
  if (at == MAP_FAILED) refuse("mmap");
  at_ = static_cast<std::byte*>(at);
}

page_view& page_view::operator=(page_view&& other) noexcept {
  std::swap(at_, other.at_);
  return *this;
}

page_view::~page_view() {
  if (at_ != nullptr) munmap(at_, FILE_BYTES);
}

verdict page_view::compare(const handle& h) const noexcept {
  if (h.slot >= SLOTS) return verdict::forged;
  const std::size_t at = slot_at(h.slot);
  std::array<std::uint64_t, handle::BYTES / 8> words{};
  for (std::size_t i = 0; i < words.size(); ++i) words[i] = load(at_, at + HANDLE_AT + i * 8);
  const bool is_out = load(at_, at + OUT_AT) != 0;
  if (is_out && std::memcmp(words.data(), &h, handle::BYTES) == 0) return verdict::same;
  const std::uint64_t last = load(at_, at + SERIAL_AT);
  const bool was_out = h.serial < last || (h.serial == last && !is_out);
  return was_out ? verdict::stale : verdict::forged;
}

published_page::published_page()
    : fd_(memfd_create("lci-buffers", MFD_CLOEXEC | MFD_ALLOW_SEALING)) {
  if (!fd_) refuse("memfd_create");
  if (ftruncate(fd_.get(), FILE_BYTES) != 0) refuse("ftruncate");
  view_ = page_view(fd_.get(), true);
  store(view_.at(), 0, MAGIC);
  // After the mapping: what was writable before the seal stays so.
  if (fcntl(fd_.get(), F_ADD_SEALS, SEALS) != 0) refuse("F_ADD_SEALS");
}

void published_page::write(const handle& h) noexcept {
  const std::size_t at = slot_at(h.slot);
  std::array<std::uint64_t, handle::BYTES / 8> words;
  std::memcpy(words.data(), &h, handle::BYTES);
  for (std::size_t i = 0; i < words.size(); ++i)
    store(view_.at(), at + HANDLE_AT + i * 8, words[i]);
  store(view_.at(), at + SERIAL_AT, h.serial);
  store(view_.at(), at + OUT_AT, 1);
}

void published_page::clear(std::uint32_t slot) noexcept {
  const std::size_t at = slot_at(slot);
  store(view_.at(), at + OUT_AT, 0);
  for (std::size_t i = 0; i < handle::BYTES; i += 8) store(view_.at(), at + HANDLE_AT + i, 0);
}

page_view open_page(int fd) {
  struct stat about {};
  const bool is_file = fstat(fd, &about) == 0 && S_ISREG(about.st_mode) &&
                       about.st_size == static_cast<off_t>(FILE_BYTES);
  const int seals = is_file ? fcntl(fd, F_GET_SEALS) : -1;
  if (seals >= 0 && (seals & SEALS) == SEALS) {
    page_view view(fd, false);
    if (load(view.at(), 0) == MAGIC) return view;
  }
  throw buffer_error(buffer_fault::forged,
                     "the descriptor that the handle names is no page of shared buffers");
}

}  // namespace lci::share
