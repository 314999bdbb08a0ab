#include "lci/transport/operation.hpp"

#include <utility>

namespace lci::transports {

void operation::follow(transfer::callback function) {
  {
    const std::lock_guard lock(mutex_);
    if (!is_done()) {
      followers_.push_back(std::move(function));
      return;
    }
  }
  function(problem_);
}

std::size_t operation::size() const noexcept {
  std::size_t sum = 0;
  for (std::size_t i = 0; i < pieces.size(); ++i) sum += pieces[i].size;
  return sum;
}

void operation::end(std::exception_ptr problem, std::vector<call>& calls) {
  const std::lock_guard lock(mutex_);
  if (is_done()) return;
  problem_ = std::move(problem);
  for (transfer::callback& one : followers_) calls.push_back({std::move(one), problem_});
  followers_.clear();
  // edge operation.end: partner is is_done(), whose caller then reads the outcome.
  is_done_.store(true, std::memory_order_release);
}

void run(std::vector<operation::call>& calls) {
  std::exception_ptr first;
  for (const operation::call& one : std::exchange(calls, {})) {
    try {
      one.function(one.problem);
    } catch (...) {
      if (first == nullptr) first = std::current_exception();
    }
  }
  if (first != nullptr) std::rethrow_exception(first);
}

}  // namespace lci::transports
