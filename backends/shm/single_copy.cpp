#include "backends/shm/single_copy.hpp"

#include <sys/uio.h>

#include <algorithm>
#include <cerrno>

namespace lci::shm {
namespace {

// The kernel moves at most 2 GiB less a page a call, and may move less than asked: hence a loop.
constexpr std::size_t CALL_MAX = std::size_t{1} << 30;

using call = ssize_t (*)(pid_t, const iovec*, unsigned long, const iovec*, unsigned long,
                         unsigned long);

int copy_all(call how, pid_t pid, void* local, std::uint64_t remote, std::size_t size) noexcept {
  auto* here = static_cast<std::byte*>(local);
  while (size > 0) {
    const std::size_t part = std::min(size, CALL_MAX);
    const iovec mine{here, part};
    const iovec theirs{reinterpret_cast<void*>(static_cast<std::uintptr_t>(remote)), part};
    const ssize_t got = how(pid, &mine, 1, &theirs, 1, 0);
    if (got < 0) {
      if (errno == EINTR) continue;
      return errno;
    }
    if (got == 0) return EFAULT;
    here += got;
    remote += static_cast<std::uint64_t>(got);
    size -= static_cast<std::size_t>(got);
  }
  return 0;
}

}  // namespace

bool single_copy_works(pid_t pid, std::uint64_t address, std::uint64_t value) noexcept {
  std::uint64_t seen = 0;
  return single_copy_read(pid, &seen, address, sizeof(seen)) == 0 && seen == value;
}

int single_copy_write(pid_t pid, std::uint64_t to, const void* from, std::size_t size) noexcept {
  return copy_all(&process_vm_writev, pid, const_cast<void*>(from), to, size);
}

int single_copy_read(pid_t pid, void* to, std::uint64_t from, std::size_t size) noexcept {
  return copy_all(&process_vm_readv, pid, to, from, size);
}

const char* reason_of(copied c) noexcept {
  switch (c) {
    case copied::done:
      return nullptr;
    case copied::unknown:
      return "the target's registration has ended, or does not cover the range";
    case copied::refused:
      return "the system forbids copies between the processes";
    case copied::failed:
      return "the target's memory no longer exists";
  }
  return nullptr;
}

copied copy_whole(peer& who, bool is_get, const put_record& where, void* local,
                  std::size_t size) noexcept {
  if (who.rows == nullptr || where.region_slot >= mem::region_table::MAX_REGIONS) {
    return copied::unknown;
  }
  const auto there =
      mem::region_table::read_remote(who.rows, {where.region_slot, where.region_generation});
  if (!there || where.offset > there->size || size > there->size - where.offset) {
    return copied::unknown;
  }
  if (size == 0) return copied::done;
  const std::uint64_t at = reinterpret_cast<std::uintptr_t>(there->address) + where.offset;
  const int error = is_get ? single_copy_read(who.pid, local, at, size)
                           : single_copy_write(who.pid, at, local, size);
  if (error == 0) return copied::done;
  // No such process: it ended a moment ago, and the news of that decides what becomes of the
  // operation.
  if (error == EPERM || error == ENOSYS || error == ESRCH) {
    // Relaxed: a hint for later operations.
    who.single_copy.store(false, std::memory_order_relaxed);
    return copied::refused;
  }
  return copied::failed;
}

}  // namespace lci::shm
