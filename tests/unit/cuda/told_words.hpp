// Deliveries and atomic operations that say what they were told.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <string_view>

#include "lci/mem/accelerator.hpp"

namespace lci::cuda {

template <class Job>
class word_job : public Job {
 public:
  std::string error;
  std::atomic<int> calls{0};
  std::function<void()> then;

 protected:
  void hear(std::string_view why) {
    error = why;
    ++calls;
    if (then) then();
  }
};

struct told_atomic final : word_job<mem::atomic_job> {
  void on_performed(std::string_view why) noexcept override { hear(why); }
};
struct told_delivery final : word_job<mem::delivery_job> {
  void on_delivered(std::string_view why) noexcept override { hear(why); }
};

}  // namespace lci::cuda
