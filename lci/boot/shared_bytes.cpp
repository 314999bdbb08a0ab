#include "lci/boot/shared_bytes.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <cerrno>

#include "lci/errors.hpp"

namespace lci::boot {

namespace {

// Neither written nor made shorter: a reader would see other bytes, or be killed by SIGBUS.
constexpr int FIXED = F_SEAL_WRITE | F_SEAL_SHRINK;

}  // namespace

base::descriptor share(std::string_view bytes) noexcept {
  // Beyond it, write() does not fail but ends the process.
  rlimit most{};
  if (::getrlimit(RLIMIT_FSIZE, &most) != 0 || bytes.size() > most.rlim_cur) return {};
  base::descriptor file(::memfd_create("lci-set-up", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  while (file && !bytes.empty()) {
    const ssize_t n = ::write(file.get(), bytes.data(), bytes.size());
    if (n > 0)
      bytes.remove_prefix(static_cast<std::size_t>(n));
    else if (n == 0 || errno != EINTR)
      file.reset();
  }
  if (file && ::fcntl(file.get(), F_ADD_SEALS, FIXED | F_SEAL_GROW | F_SEAL_SEAL) != 0)
    file.reset();
  return file;
}

shared_bytes::shared_bytes(const base::descriptor& file, std::size_t size) : size_(size) {
  struct stat now {};
  const int seals = ::fcntl(file.get(), F_GET_SEALS);
  if (seals < 0 || (seals & FIXED) != FIXED || ::fstat(file.get(), &now) != 0 || size == 0 ||
      static_cast<std::size_t>(now.st_size) < size)
    throw backend_error("the launcher's file of set-up data is damaged");
  // All of it is read at once, so its pages are not faulted in one by one.
  at_ = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE | MAP_POPULATE, file.get(), 0);
  if (at_ == MAP_FAILED)
    throw backend_error("the launcher's file of set-up data cannot be mapped: " +
                        errno_text(errno));
}

shared_bytes::~shared_bytes() { ::munmap(at_, size_); }

}  // namespace lci::boot
