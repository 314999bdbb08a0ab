#include "tools/lcrun/orders.hpp"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace lcrun {

order_stream::order_stream(lci::base::descriptor pipe, std::string mission)
    : pipe_(std::move(pipe)), waiting_(std::move(mission)) {
  ::fcntl(pipe_.get(), F_SETFL, O_NONBLOCK);
  write_some();
}

void order_stream::push(unsigned char order) {
  waiting_.push_back(static_cast<char>(order));
  ++behind_;
  write_some();
}

bool order_stream::is_read() const noexcept {
  int unread = 0;  // in the pipe
  return !has_data() && (::ioctl(pipe_.get(), FIONREAD, &unread) != 0 || unread <= behind_);
}

void order_stream::write_some() noexcept {
  while (has_data()) {
    const ssize_t n = ::write(pipe_.get(), waiting_.data() + sent_, waiting_.size() - sent_);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) return;
    // An agent that does not read it ends, and we are told of that.
    if (n < 0) pipe_.reset();
    sent_ = n < 0 ? waiting_.size() : sent_ + static_cast<std::size_t>(n);
  }
  waiting_.clear();
  sent_ = 0;
}

}  // namespace lcrun
