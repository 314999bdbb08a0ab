#include "tools/lcrun/input.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "lci/errors.hpp"

namespace lcrun {
namespace {

// In the background a read would stop us.
bool is_in_foreground() noexcept { return ::tcgetpgrp(STDIN_FILENO) == ::getpgrp(); }

}  // namespace

input::input() : nothing_(::open("/dev/null", O_RDONLY | O_CLOEXEC)) {
  if (!nothing_) throw lci::backend_error("cannot open /dev/null: " + lci::boot::errno_text(errno));
  if (!::isatty(STDIN_FILENO)) return;
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0)
    throw lci::backend_error("pipe2 failed: " + lci::boot::errno_text(errno));
  rank0_end_.reset(ends[0]);
  our_end_.reset(ends[1]);
  ::fcntl(our_end_.get(), F_SETFL, O_NONBLOCK);
}

int input::descriptor_for(int rank) const noexcept {
  if (rank != 0) return nothing_.get();
  return rank0_end_ ? rank0_end_.get() : STDIN_FILENO;
}

void input::add_to(std::vector<pollfd>& set) const {
  if (!our_end_) return;
  if (!pending_.empty())
    set.push_back(pollfd{our_end_.get(), POLLOUT, 0});
  else if (is_in_foreground())
    set.push_back(pollfd{STDIN_FILENO, POLLIN, 0});
}

bool input::waits_for_foreground() const noexcept {
  return our_end_ && pending_.empty() && !is_in_foreground();
}

void input::handle(const std::vector<pollfd>& set) {
  if (!our_end_) return;
  for (const pollfd& entry : set) {
    if (entry.revents == 0) continue;
    // The user may have sent us to the background since it was asked for.
    if (entry.fd == STDIN_FILENO && is_in_foreground()) read_terminal();
    if (our_end_ && entry.fd == our_end_.get()) write_pipe();
  }
}

void input::read_terminal() {
  char bytes[4096];
  const ssize_t n = ::read(STDIN_FILENO, bytes, sizeof bytes);
  if (n > 0) {
    pending_.append(bytes, static_cast<std::size_t>(n));
    write_pipe();
  } else if (n == 0 || errno != EINTR) {
    our_end_.reset();  // rank 0 sees the end of its input
  }
}

void input::write_pipe() {
  const ssize_t n = ::write(our_end_.get(), pending_.data(), pending_.size());
  if (n > 0)
    pending_.erase(0, static_cast<std::size_t>(n));
  else if (n < 0 && errno != EINTR && errno != EAGAIN)
    our_end_.reset();  // rank 0 has closed its input
}

}  // namespace lcrun
