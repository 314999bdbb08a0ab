// Descriptors that close themselves, deadlines, and the socket calls of the bootstraps in the form
// that they need: with a deadline and an exception that names what failed.
// Threads: a unique_fd has one owner; the functions have no state.
// Threads: a unique_fd has one owner; the functions are free of state.
#pragma once

#include <unistd.h>

#include <chrono>
#include <string>
#include <string_view>
#include <utility>

namespace lci::boot {

class unique_fd {
 public:
  unique_fd() noexcept = default;
  explicit unique_fd(int fd) noexcept : fd_(fd) {}
  unique_fd(unique_fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  unique_fd& operator=(unique_fd&& other) noexcept {
    if (this != &other) reset(std::exchange(other.fd_, -1));
    return *this;
  }
  ~unique_fd() { reset(); }
  int get() const noexcept { return fd_; }
  explicit operator bool() const noexcept { return fd_ >= 0; }
  void reset(int fd = -1) noexcept {
    if (fd_ >= 0) ::close(fd_);
    fd_ = fd;
  }
  int release() noexcept { return std::exchange(fd_, -1); }

 private:
  int fd_ = -1;
};

// The time at which a wait is given up, or never.
class deadline {
 public:
  static deadline never() noexcept { return deadline(); }
  static deadline in(std::chrono::milliseconds time) {
    deadline d;
    d.limited_ = true;
    d.at_ = std::chrono::steady_clock::now() + time;
    return d;
  }
  // For poll(): -1 = no limit, 0 = over.
  int remaining_ms() const {
    if (!limited_) return -1;
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(at_ - std::chrono::steady_clock::now());
    return left.count() > 0 ? static_cast<int>(left.count()) : 0;
  }
  bool is_over() const { return remaining_ms() == 0; }

 private:
  bool limited_ = false;
  std::chrono::steady_clock::time_point at_{};
};

// "Connection refused [111]"
std::string errno_text(int error);

// Waits for `events` on `fd`; false when the deadline passed.
bool wait_for(int fd, short events, const deadline& until);

// A socket of the abstract namespace: it has no file and disappears with its last descriptor.
// listen: throws backend_error. connect: an empty unique_fd and errno when it cannot.
unique_fd listen_abstract(const std::string& name);
unique_fd connect_abstract(const std::string& name) noexcept;

// The user id at the other end of a local socket, or -1 if the kernel does not say.
long peer_uid(int fd) noexcept;

}  // namespace lci::boot
