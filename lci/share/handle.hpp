// What a handle of a shared buffer is: 264 bytes that name a process and one of the ranges it has
// published. Callers: the rest of this folder. Threads: plain records and pure functions.
// Always true: a handle is not believed. What decode() gives is in bounds; whether the owner stands
// by it is found out by comparing all of its bytes with what the owner has published, the tag of 16
// random bytes among them. The checksum is no protection, it tells damage from forgery.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "lci/buffer.hpp"
#include "lci/mem/memory_sharing.hpp"

namespace lci::share {

enum class handle_way : std::uint32_t {
  host_file = 1,  // a memory file
  gpu = 2         // the domain's ticket, and perhaps a descriptor
};

// As on the wire, little endian; no padding.
struct handle {
  std::array<char, 8> magic{'l', 'c', 'i', 'b', 'u', 'f', '0', '1'};  // the version is its end
  std::uint64_t checksum = 0;                                         // of all behind it
  std::array<std::uint8_t, 16> boot{};  // the machine, since its start
  std::uint64_t process_space = 0;      // in which `pid` counts
  std::uint64_t start_time = 0;         // of the process; a number is used again, this is not
  std::uint32_t pid = 0, user = 0;
  std::int32_t page_fd = -1;    // the owner's number of its published page
  std::int32_t memory_fd = -1;  // and of the descriptor behind the memory; -1: none
  std::uint64_t serial = 0;     // counts what the owner has published, from 1
  std::uint32_t slot = 0;       // of the page
  handle_way way = handle_way::host_file;
  std::uint64_t memory_size = 0, offset = 0, size = 0;  // bytes; the range is inside
  std::uint64_t socket = 0;                             // of the owner, if it serves
  std::uint64_t driver_version = 0;                     // GPU only
  std::array<char, 8> domain{};                         // "cuda"
  std::array<char, 16> pci{};
  std::array<std::uint8_t, mem::SHARE_TICKET_BYTES> ticket{};
  std::array<std::uint8_t, 16> tag{};

  static constexpr std::size_t BYTES = 264;
  // With the checksum set.
  std::string encode() const;
  // Throws buffer_error: malformed.
  static handle decode(std::string_view bytes);
};
static_assert(sizeof(handle) == handle::BYTES);

// Who a process is.
struct process_identity {
  std::array<std::uint8_t, 16> boot{};
  std::uint64_t process_space = 0, start_time = 0;
  std::uint32_t pid = 0, user = 0;
};
// Throws buffer_error: no_room.
process_identity this_process();
// When it began, in ticks since the machine did; 0: there is no such process. Throws buffer_error:
// no_room.
std::uint64_t start_time_of(pid_t pid);
// Throws backend_error.
void fill_random(void* to, std::size_t size);
std::uint64_t checksum_of(const void* bytes, std::size_t size) noexcept;
// Whether a system call failed for want of descriptors or memory.
bool is_no_room(int error) noexcept;
// "pid 17"
std::string owner_text(const handle& h);

}  // namespace lci::share
