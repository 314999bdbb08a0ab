// Deadlines, and the socket calls of the bootstraps in the form that they need: with a deadline and
// an exception that names what failed.
// Threads: the functions have no state.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "lci/base/descriptor.hpp"

namespace lci::boot {

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
// listen: throws backend_error. connect: an empty base::descriptor and errno when it cannot.
base::descriptor listen_abstract(const std::string& name);
base::descriptor connect_abstract(const std::string& name) noexcept;

// The user id at the other end of a local socket, or -1 if the kernel does not say.
long peer_uid(int fd) noexcept;

}  // namespace lci::boot
