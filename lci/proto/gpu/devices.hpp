// The accelerator of a runtime, started when its memory is first used, and what it is doing for us.
// Threads: shared, but for close(). Always true: a host-only program starts nothing, and what is
// under way here keeps core busy.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <string_view>

#include "lci/mem/memory_domain.hpp"
#include "lci/proto/engine/core.hpp"

namespace lci::proto::gpu {

class devices;

// Where what a GPU does is counted until it has ended.
struct counting {
  devices* home = nullptr;
  std::atomic<std::size_t>* in = nullptr;
};

// A copy that is counted.
class device_job : public mem::copy_job {
 public:
  // From progress, any thread. error is empty or a sentence.
  virtual void ended(std::string_view error) noexcept = 0;

 protected:
  ~device_job() = default;

 private:
  friend class devices;
  void on_copied(std::string_view error) noexcept final;
  counting counted_;
};

// The same of a few bytes and a word behind them.
class device_delivery : public mem::delivery_job {
 public:
  // As device_job::ended().
  virtual void delivered(std::string_view error) noexcept = 0;

 protected:
  ~device_delivery() = default;

 private:
  friend class devices;
  void on_delivered(std::string_view error) noexcept final;
  counting counted_;
};

class devices {
 public:
  explicit devices(core& of) : core_(of) {}

  // Before the first use(): what accelerator::keep_resident() is told.
  void set_resident(int blocks) noexcept { resident_blocks_ = blocks; }
  // The same for accelerator::allow_cpu_copies().
  void set_gdrcopy(attr_gpu_gdrcopy_t wanted) noexcept { gdrcopy_ = wanted; }
  // Starts the domain's accelerator if none runs. Throws backend_error.
  mem::accelerator& use(const mem::memory_domain& domain);
  // The same where no memory says which domain: the one that runs, else the first that can be used.
  mem::accelerator& use_any();
  // Null before the first use().
  mem::accelerator* running() const noexcept {
    return running_.load(std::memory_order_acquire);  // edge devices.running: partner is use()
  }
  // After use(). The job ends in a later poll(). count: of jobs that have not ended; null: the
  // caller waits for the end.
  void copy(device_job& job, std::atomic<std::size_t>* count) noexcept;
  // See mem::accelerator::copy_and_flag().
  bool copy_and_flag(device_job& job, std::uint64_t* flag, std::uint64_t value,
                     std::atomic<std::size_t>* count) noexcept;
  // See mem::accelerator::deliver(). False also where no accelerator runs.
  bool deliver(device_delivery& job, std::atomic<std::size_t>* count) noexcept;
  // See mem::accelerator::atomic(); who asks keeps core busy meanwhile.
  std::string_view change_word(mem::atomic_job& job) noexcept;
  // Whether it is worth asking for a copy by the calling thread. No more than a look at a number
  // which is 0 where there is no such way.
  bool may_read_by_cpu(std::size_t size) const noexcept {
    // relaxed, as below: the accelerator, which made the number, is seen by its own edge
    return size <= read_limit_.load(std::memory_order_relaxed);
  }
  // See mem::accelerator; the size is not 0. False also where may_read_by_cpu() is.
  bool read_by_cpu(void* to, const void* from, std::size_t size) noexcept;
  bool write_by_cpu(void* to, const void* from, std::size_t size) noexcept {
    if (size > write_limit_.load(std::memory_order_relaxed)) [[likely]]
      return false;
    return write_small(to, from, size);
  }
  // See core::expect().
  void expect(int change) noexcept { core_.expect(change); }
  std::size_t poll() noexcept;
  // Nobody uses it any more; before the networks close, whose mappings may be pinned.
  void close() noexcept;

 private:
  friend class device_job;
  friend class device_delivery;
  bool write_small(void* to, const void* from, std::size_t size) noexcept;
  void count(counting& job, std::atomic<std::size_t>* in) noexcept;
  static void uncount(const counting& job) noexcept;

  core& core_;
  int resident_blocks_ = 0;
  attr_gpu_gdrcopy_t gdrcopy_ = attr_gpu_gdrcopy_t::auto_select;
  std::mutex mutex_;  // guards the start
  std::unique_ptr<mem::accelerator> owned_;
  std::atomic<mem::accelerator*> running_{nullptr};
  // accelerator::allow_cpu_copies(); 0 while none runs
  std::atomic<std::size_t> read_limit_{0}, write_limit_{0};
};

}  // namespace lci::proto::gpu
