// Deliveries and atomic operations that say what they were told.
#pragma once

#include <atomic>
#include <functional>
#include <string>

#include "lci/mem/accelerator.hpp"

namespace lci::cuda {

struct told_atomic final : mem::atomic_job {
  void on_performed(std::string_view why) noexcept override {
    error = why;
    ++calls;
    if (then) then();
  }
  std::string error;
  std::atomic<int> calls{0};
  std::function<void()> then;
};

struct told_delivery final : mem::delivery_job {
  void on_delivered(std::string_view why) noexcept override {
    error = why;
    ++calls;
    if (then) then();
  }
  std::string error;
  std::atomic<int> calls{0};
  std::function<void()> then;
};

}  // namespace lci::cuda
