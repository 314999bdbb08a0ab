// What lcrun sends to its agent on a host, through a pipe to the ssh that leads there: the mission,
// and behind it bytes: a signal for the ranks, or one of the orders below.
// Threads: single, from the launcher's poll loop. Always true: nothing here blocks. ssh reads
// nothing before it is connected, and what the pipe does not take until then waits here.
#pragma once

#include <cstddef>
#include <string>

#include "lci/boot/fd.hpp"

namespace lcrun {

// Behind the numbers of all signals: to print who waits for what, and to end the job.
inline constexpr unsigned char ORDER_PAGE = 128, ORDER_END = 129;

class order_stream {
 public:
  order_stream() = default;
  order_stream(lci::base::descriptor pipe, std::string mission);
  void push(unsigned char order);
  // The mission was read: the way to the host is open.
  bool is_read() const noexcept;
  bool has_data() const noexcept { return sent_ < waiting_.size(); }
  int fd() const noexcept { return pipe_.get(); }
  void write_some() noexcept;

 private:
  lci::base::descriptor pipe_;
  std::string waiting_;
  std::size_t sent_ = 0;  // of it
  int behind_ = 0;        // bytes pushed since the mission
};

}  // namespace lcrun
