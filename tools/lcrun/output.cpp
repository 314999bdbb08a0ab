#include "tools/lcrun/output.hpp"

#include <limits.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace lcrun {

int sink::write_some() {
  // A pipe that poll() calls writable takes PIPE_BUF bytes without blocking; more might block, and
  // stdout is shared with others, so it must not be made non-blocking.
  const std::size_t most = std::min<std::size_t>(buffer_.size() - taken_, PIPE_BUF);
  const ssize_t n = ::write(fd_, buffer_.data() + taken_, most);
  if (n < 0) {
    const int why = errno;
    if (why == EINTR || why == EAGAIN) return 0;
    dead_ = true;
    buffer_.clear();
    taken_ = 0;
    // As for any program in a pipeline, the reader's end is the end of output, and no error.
    return why == EPIPE || why == ECONNRESET ? 0 : why;
  }
  taken_ += static_cast<std::size_t>(n);
  if (taken_ == buffer_.size()) {
    buffer_.clear();
    taken_ = 0;
  } else if (taken_ > 128 * 1024) {
    buffer_.erase(0, taken_);
    taken_ = 0;
  }
  return 0;
}

line_stream::line_stream(lci::base::descriptor fd, sink& to, std::string tag, bool end_last_line)
    : fd_(std::move(fd)), to_(to), tag_(std::move(tag)), end_last_line_(end_last_line) {}

void line_stream::read_some() {
  if (is_open()) read_once();
}

void line_stream::drain() {
  // A writer that goes on (a process that the rank has started) must not keep us here.
  for (int left = 64; left > 0 && is_open() && read_once(); --left) {
  }
}

// True when there may be more.
bool line_stream::read_once() {
  char bytes[64 * 1024];
  if (to_.is_dead()) {
    fd_.reset();  // the rank gets SIGPIPE, as it would without us
    return false;
  }
  const ssize_t n = ::read(fd_.get(), bytes, sizeof bytes);
  if (n > 0) {
    push_lines(std::string_view(bytes, static_cast<std::size_t>(n)));
    return true;
  }
  if (n < 0 && errno == EINTR) return true;
  if (n < 0 && errno == EAGAIN) return false;
  fd_.reset();
  finish();
  return false;
}

void line_stream::finish() {
  if (partial_.empty()) return;
  if (end_last_line_) partial_ += '\n';
  push_line(std::exchange(partial_, {}));
}

void line_stream::push_lines(std::string_view bytes) {
  for (;;) {
    const std::size_t end = bytes.find('\n');
    if (end == std::string_view::npos) break;
    if (partial_.empty()) {
      push_line(bytes.substr(0, end + 1));
    } else {
      partial_ += bytes.substr(0, end + 1);
      push_line(partial_);
      partial_.clear();
    }
    bytes.remove_prefix(end + 1);
  }
  partial_ += bytes;
  if (partial_.size() > MAX_LINE) {
    partial_ += '\n';
    push_line(std::exchange(partial_, {}));
  }
}

void line_stream::push_line(std::string_view line) {
  if (!mark_.empty() && (line == mark_ || line == failed_)) {
    ++(line == mark_ ? marks_ : failures_);
    return;
  }
  to_.push(tag_);
  to_.push(line);
}

}  // namespace lcrun
