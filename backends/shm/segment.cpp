#include "backends/shm/segment.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

#include "lci/base/platform.hpp"
#include "lci/errors.hpp"
#include "lci/mem/address_space.hpp"

namespace lci::shm {
namespace {

// No arena reserves more; a larger number in a hello is garbage.
constexpr std::uint64_t MAX_RESERVE = std::uint64_t{1} << 44;

}  // namespace

segment::~segment() {
  if (base_ != nullptr && !own_) {
    if (is_in_window_) home_->packet_window().remove(base_);
    munmap(base_, reserve_);
  }
  if (fd_ >= 0) close(fd_);
}

void segment::map(int fd, std::uint64_t reserve, mem::arena& home) {
  if (reserve == 0 || reserve > MAX_RESERVE || reserve % 4096 != 0) {
    throw backend_error("shm: a peer says that its arena reserves " + std::to_string(reserve) +
                        " bytes; legal are whole pages up to " + std::to_string(MAX_RESERVE));
  }
  // A process that shrinks a file under a mapping kills the processes that look at it. Kernels that
  // know no seals say EINVAL.
  const int seals = fcntl(fd, F_GET_SEALS);
  if (seals >= 0 && (seals & F_SEAL_SHRINK) == 0) {
    throw backend_error("shm: a peer's memory file is not sealed against shrinking");
  }
  // The whole reservation at once: the file grows, the mapping need not. Bytes past the end of the
  // file are never touched, resolve() sees to that.
  void* p = mmap(home.packet_window().place_for(reserve), reserve, PROT_READ | PROT_WRITE,
                 MAP_SHARED | MAP_NORESERVE, fd, 0);
  if (p == MAP_FAILED) {
    const int error = errno;
    throw backend_error("shm: mmap of a peer's arena, " + std::to_string(reserve) +
                        " bytes: " + std::strerror(error) +
                        (error == ENOMEM ? mem::limit_text(mem::find_address_space()) : ""));
  }
  fd_ = fd;
  home_ = &home;
  is_in_window_ = home.packet_window().add(p, reserve);
  base_ = static_cast<std::byte*>(p);
  reserve_ = reserve;
}

// The descriptor is for asking the size, as with a peer's file.
void segment::use(const mem::arena& own) noexcept {
  base_ = own.at(0);
  reserve_ = own.reserved();
  own_ = true;
  is_in_window_ = true;
  fd_ = fcntl(own.fd(), F_DUPFD_CLOEXEC, 0);
}

LCI_COLD bool segment::refresh(std::uint64_t offset, std::size_t size) noexcept {
  struct stat now {};
  if (fd_ < 0 || fstat(fd_, &now) != 0) return false;
  const auto seen =
      std::min<std::uint64_t>(static_cast<std::uint64_t>(now.st_size), std::uint64_t{reserve_});
  size_.store(seen, std::memory_order_relaxed);
  return offset <= seen && size <= seen - offset;
}

}  // namespace lci::shm
