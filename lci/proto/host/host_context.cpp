#include "lci/proto/host/host_context.hpp"

#include <mutex>

namespace lci::proto {

void host_context::answer_later(receive& to, message& request) noexcept {
  request.met = &to;
  expect_leftovers(1);
  const std::lock_guard lock(lock_);
  request.pool_next = answers_;
  answers_ = &request;
}

message* host_context::take_answers() noexcept {
  const std::lock_guard lock(lock_);
  return std::exchange(answers_, nullptr);
}

}  // namespace lci::proto
