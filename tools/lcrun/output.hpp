// Output of the job: the lines of all ranks, whole and one after the other.
// Threads: single, from the launcher's poll loop.
// Always true: a line (up to MAX_LINE bytes) is never split by another one; nothing here blocks; a
// reader that does not keep up slows the ranks instead of filling our memory.
#pragma once

#include <poll.h>

#include <string>
#include <string_view>
#include <vector>

#include "lci/boot/fd.hpp"

namespace lcrun {

// The launcher's own stdout or stderr.
class sink {
 public:
  explicit sink(int fd) : fd_(fd) {}
  void push(std::string_view bytes) {
    if (!dead_) buffer_ += bytes;
  }
  bool has_data() const noexcept { return taken_ < buffer_.size(); }
  bool is_clogged() const noexcept { return buffer_.size() - taken_ > 256 * 1024; }
  bool is_dead() const noexcept { return dead_; }  // it takes no more
  int fd() const noexcept { return fd_; }
  // Writes a little; call it when poll() reports the descriptor. Returns 0, or the errno by which
  // output is lost that a reader may still expect.
  int write_some();

 private:
  const int fd_;
  std::string buffer_;
  std::size_t taken_ = 0;
  bool dead_ = false;
};

// One output pipe of one rank.
class line_stream {
 public:
  static constexpr std::size_t MAX_LINE = std::size_t{1} << 20;

  // `tag` goes before each line. `end_last_line`: a last line without an end gets one.
  line_stream(lci::base::descriptor fd, sink& to, std::string tag, bool end_last_line);
  // Lines that are `mark`, or `mark` and FAILED, are counted instead of passed on.
  static constexpr std::string_view FAILED = " failed";
  void take_out(const std::string& mark) {
    mark_ = mark + "\n";
    failed_ = mark + std::string(FAILED) + "\n";
  }
  int marks() const noexcept { return marks_; }
  int failures() const noexcept { return failures_; }
  int fd() const noexcept { return fd_.get(); }
  bool is_open() const noexcept { return static_cast<bool>(fd_); }
  bool may_read() const noexcept { return is_open() && !to_.is_clogged(); }
  // Reads what is there; closes at the end of the stream, or when the sink has no reader.
  void read_some();
  // Reads everything that is in the pipe now.
  void drain();
  // Passes on the last line, which may lack its end.
  void finish();

 private:
  bool read_once();
  void push_lines(std::string_view bytes);
  void push_line(std::string_view line);

  lci::base::descriptor fd_;
  sink& to_;
  const std::string tag_;
  const bool end_last_line_;
  std::string mark_, failed_;
  int marks_ = 0, failures_ = 0;
  std::string partial_;
};

}  // namespace lcrun
