#include "lci/base/unshared.hpp"

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <new>

namespace lci::base {
namespace {

constexpr std::size_t BITS = 64;

struct table {
  std::atomic<std::uint64_t> marks[unshared::MOST / BITS]{};

  std::atomic<std::uint64_t>& word_of(int fd) noexcept {
    return marks[static_cast<std::size_t>(fd) / BITS];
  }
  static std::uint64_t bit_of(int fd) noexcept {
    return std::uint64_t{1} << static_cast<std::size_t>(fd) % BITS;
  }
};

// Made at the first mark and never destroyed. Null: there was no memory, so a child keeps them all.
table* find_table() noexcept {
  static table* const only = new (std::nothrow) table;
  return only;
}

// Runs in the child of each fork(), in its only thread, once there is a table.
void give_up_all() noexcept {
  table& all = *find_table();
  int nothing = -1;
  for (std::size_t i = 0; i < std::size(all.marks); ++i) {
    // Relaxed, here and below: a child sees what its thread saw when it forked, and what other
    // threads had stored before they entered the kernel for that descriptor.
    for (std::uint64_t left = all.marks[i].load(std::memory_order_relaxed); left != 0;
         left &= left - 1) {
      const int fd = static_cast<int>(i * BITS) + std::countr_zero(left);
      // Closing the first one makes room, in case there are no descriptors left.
      if (nothing < 0) {
        close(fd);
        nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
      }
      if (nothing >= 0 && nothing != fd) dup3(nothing, fd, O_CLOEXEC);
    }
  }
  const auto is_marked = [&all](int fd) {
    return fd < unshared::MOST &&
           (all.word_of(fd).load(std::memory_order_relaxed) & table::bit_of(fd)) != 0;
  };
  if (nothing >= 0 && !is_marked(nothing)) close(nothing);
  for (std::atomic<std::uint64_t>& each : all.marks) {
    if (each.load(std::memory_order_relaxed) != 0) each.store(0, std::memory_order_relaxed);
  }
}

// Whether that number can be marked.
bool has_place(int fd) noexcept {
  if (fd < 0 || fd >= unshared::MOST) return false;
  static const bool is_watching =
      find_table() != nullptr && pthread_atfork(nullptr, nullptr, &give_up_all) == 0;
  return is_watching;
}

}  // namespace

void unshared::reset(int fd) noexcept {
  // Locked instructions: a fork that copies the descriptor sees the mark, and one in which the
  // number has another owner does not.
  if (has_place(fd_))
    find_table()->word_of(fd_).fetch_and(~table::bit_of(fd_), std::memory_order_seq_cst);
  fd_ = fd;
  if (has_place(fd))
    find_table()->word_of(fd).fetch_or(table::bit_of(fd), std::memory_order_seq_cst);
}

}  // namespace lci::base
