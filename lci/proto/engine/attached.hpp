// Code from above the protocols that takes part in the progress of one device while it is there.
// Callers: the engine, which polls; the code that attaches it, one at a time. Threads: attach() and
// detach() any but those inside of poll(). Always true: while nothing is attached a round of
// progress has no instruction for it, since it does not count as something to look at; after
// detach() no thread is inside.
#pragma once

#include <mutex>

#include "lci/base/spinlock.hpp"
#include "lci/proto/engine/core.hpp"
#include "lci/proto/engine/part.hpp"

namespace lci::proto {

class attachment {
 public:
  // In each round of progress of its device, in one thread at a time; answers how much was done.
  virtual std::size_t poll() noexcept = 0;

 protected:
  ~attachment() = default;
};

class attached final : public part {
 public:
  explicit attached(core& shared) noexcept : shared_(shared) {}

  void attach(attachment& one) noexcept {
    {
      const std::lock_guard lock(lock_);
      one_ = &one;
    }
    shared_.expect(1);
  }
  void detach() noexcept {
    shared_.expect(-1);
    const std::lock_guard lock(lock_);
    one_ = nullptr;
  }
  std::size_t poll() override {
    const std::unique_lock lock(lock_, std::try_to_lock);
    return lock.owns_lock() && one_ != nullptr ? one_->poll() : 0;
  }

 private:
  core& shared_;
  base::spinlock lock_;  // held while it polls, so that it is never in two threads
  attachment* one_ = nullptr;
};

}  // namespace lci::proto
