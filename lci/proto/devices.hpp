// The accelerator of a runtime, started when its memory is first used, and what it is doing for us.
// Owned by core. Threads: shared, but for close(). Always true: a host-only program starts nothing,
// and asks one relaxed load per round of progress.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <string_view>

#include "lci/mem/memory_domain.hpp"

namespace lci::proto {

class devices;

// A copy that is counted until it has ended.
class device_job : public mem::copy_job {
 public:
  // From progress, any thread. error is empty or a sentence.
  virtual void ended(std::string_view error) noexcept = 0;

 protected:
  ~device_job() = default;

 private:
  friend class devices;
  void on_copied(std::string_view error) noexcept final;
  devices* home_ = nullptr;
};

class devices {
 public:
  explicit devices(mem::arena& records) : records_(records) {}

  // Before the first use(): what accelerator::keep_resident() is told.
  void set_resident(int blocks) noexcept { resident_blocks_ = blocks; }
  // Starts the domain's accelerator if none runs. Throws backend_error.
  mem::accelerator& use(const mem::memory_domain& domain);
  // The same where no memory says which domain: the one that runs, else the first that can be used.
  mem::accelerator& use_any();
  // Null before the first use().
  mem::accelerator* running() const noexcept {
    return running_.load(std::memory_order_acquire);  // edge devices.running: partner is use()
  }
  // After use(). The job ends in a later poll().
  void copy(device_job& job) noexcept;
  // See mem::accelerator::copy_and_flag().
  bool copy_and_flag(device_job& job, std::uint64_t* flag, std::uint64_t value) noexcept;
  // Something beside copies has to be looked at in every round of progress (or no more, -1).
  void expect(int change) noexcept {
    under_way_.fetch_add(static_cast<std::size_t>(change), std::memory_order_relaxed);
  }
  bool is_busy() const noexcept { return under_way_.load(std::memory_order_relaxed) != 0; }
  std::size_t poll() noexcept;
  // Nobody uses it any more; before the networks close, whose mappings may be pinned.
  void close() noexcept;

 private:
  friend class device_job;
  mem::arena& records_;
  int resident_blocks_ = 0;
  std::mutex mutex_;  // guards the start
  std::unique_ptr<mem::accelerator> owned_;
  std::atomic<mem::accelerator*> running_{nullptr};
  std::atomic<std::size_t> under_way_{0};
};

}  // namespace lci::proto
