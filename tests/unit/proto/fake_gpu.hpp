// GPUs that are not there: memory that only the accelerator can touch, and an accelerator per rank
// whose copies run late, in no order, and fail on demand.
//
//   fake_memory  a range of "GPU memory": the processor dies of touching it
//   fake_gpu     a mem::accelerator; made by the domain "fake" for the arena of a rank
//
// Threads: as mem::accelerator; settings are changed while nobody polls. Always true: a copy reads
// and writes when it runs, in some poll(), never in copy(); a copy that fails has written half of
// its bytes; one that left its buffers, or took host memory for device memory, ends the test.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "lci/errors.hpp"
#include "lci/mem/memory_domain.hpp"

namespace lci::test {

// The domain that the tests of proto are linked with.
const mem::memory_domain& fake_domain();

class fake_memory {
 public:
  // is_managed: memory that the domain finds, but does not handle.
  explicit fake_memory(std::size_t size, int device = 0, bool is_managed = false);
  ~fake_memory();
  fake_memory(const fake_memory&) = delete;
  fake_memory& operator=(const fake_memory&) = delete;
  std::byte* at() const noexcept { return view_; }      // what the library gets
  std::byte* bytes() const noexcept { return alias_; }  // what the test reads and writes
  std::size_t size() const noexcept { return size_; }

 private:
  std::size_t size_, mapped_;
  std::byte* view_ = nullptr;
  std::byte* alias_ = nullptr;
};

// The bytes behind an address that a fake_memory handed out; null for any other.
void* fake_bytes(void* address);

class fake_gpu final : public mem::accelerator {
 public:
  struct settings {
    std::uint64_t seed = 1;
    std::uint32_t max_delay = 3;  // polls until a copy runs, and again until its end is told
    std::uint64_t fail_copy = 0;  // the n-th from now on fails; 0: none
    std::size_t fail_size = 0;    // all copies of so many bytes fail; 0: none
    bool refuses_share = false;
    bool refuses_map = false, has_owner_ended = false;  // the second: because of that
    bool is_shared = false;                             // with the peers' processes
    bool refuses_flags = false;
    bool refuses_pin = false;
    bool refuses_atomics = false;
    bool fails_atomics = false;
    bool delivers = false;  // there is a kernel for deliveries
    bool fails_deliveries = false;
    std::size_t most_deliveries = 1000;    // that it takes at a time
    std::uint32_t refuse_hand_one_in = 0;  // copies by the processor; 0: none is refused
  };
  // What it says to allow_cpu_copies(on).
  static constexpr mem::cpu_copy_limits CPU_LIMITS = {1024, 8192};

  explicit fake_gpu(mem::arena& records);
  ~fake_gpu() override;
  mem::cpu_copy_limits allow_cpu_copies(attr_gpu_gdrcopy_t wanted) override;
  bool read_by_cpu(std::byte* to, const std::byte* from, std::size_t size) noexcept override;
  bool write_by_cpu(std::byte* to, const std::byte* from, std::size_t size) noexcept override;
  void copy(mem::copy_job& job) noexcept override;
  bool copy_and_flag(mem::copy_job& job, std::uint64_t* flag,
                     std::uint64_t value) noexcept override;
  std::string_view atomic(mem::atomic_job& job) noexcept override;
  std::size_t poll() noexcept override;
  mem::share_place share(const void* at, std::size_t size, std::string& why_not) override;
  mem::mapped_memory map(const mem::peer_range& what, int device, std::string& why_not) override;
  void forget(int rank) noexcept override;
  std::string pin(void* at, std::size_t size) override;
  void unpin(void* at) noexcept override;
  // It has no streams of programs; fake_streams does.
  bool is_captured(void*) override { throw backend_error("fake: no streams"); }
  mem::stream_word& take_word() override { throw backend_error("fake: no streams"); }
  void put_word(mem::stream_word&) noexcept override {}
  void enqueue(void*, std::span<const mem::stream_step>) override {
    throw backend_error("fake: no streams");
  }

  void set(const settings& how);
  // The process dies: what is under way here ends nowhere and writes nothing.
  void die() noexcept;
  std::uint64_t copies() const noexcept { return copies_; }  // taken over so far
  std::uint64_t flagged() const noexcept { return flagged_; }
  std::uint64_t failed() const noexcept { return failed_; }
  std::uint64_t by_cpu() const noexcept { return by_cpu_; }  // copies of the processor
  bool deliver(mem::delivery_job& job) noexcept override;
  std::uint64_t deliveries() const noexcept { return deliveries_; }  // taken over so far
  // Most that were under way at a time.
  std::size_t deliveries_together() const noexcept { return deliveries_together_; }
  // Called for each before its bytes are there. They are brought in any order.
  std::function<void(const mem::delivery_job&)> before_delivery;
  std::uint64_t atomics() const noexcept { return atomics_; }  // taken over so far
  std::size_t under_way() const noexcept;
  std::size_t mapped() const noexcept { return mapped_; }  // mapped_memory alive
  std::size_t forgotten() const noexcept { return forgotten_.size(); }
  // A copy that has not run yet touches these bytes, as the library names them.
  bool uses(const void* at, std::size_t size) const noexcept;

 private:
  struct waiting {
    mem::copy_job* job;
    std::uint64_t* flag;
    std::uint64_t value;
    std::uint32_t runs_in, told_in;  // polls
    bool fails;
    bool has_run;
  };
  void add(mem::copy_job& job, std::uint64_t* flag, std::uint64_t value) noexcept;
  bool copy_by_cpu(std::byte* to, const std::byte* from, std::size_t size,
                   std::size_t limit) noexcept;
  void run(waiting& one) noexcept;
  void check_places(const mem::copy_job& job) const noexcept;
  static void release(void* held) noexcept;

  mem::arena& arena_;
  std::byte* records_;
  std::size_t next_record_ = 0;
  mutable std::mutex mutex_;
  settings how_;
  std::mt19937_64 rng_;
  std::deque<waiting> jobs_;
  std::deque<mem::atomic_job*> words_;  // one runs in each poll
  struct delivery {
    mem::delivery_job* job;
    std::vector<std::byte> bytes;
  };
  std::deque<delivery> delivered_;
  std::uint64_t deliveries_ = 0;
  std::size_t deliveries_together_ = 0;
  std::set<std::pair<std::byte*, std::size_t>> pinned_;
  std::multiset<int> forgotten_;
  std::uint64_t copies_ = 0, flagged_ = 0, failed_ = 0, by_cpu_ = 0, atomics_ = 0;
  std::size_t mapped_ = 0;
  bool is_dead_ = false;
};

}  // namespace lci::test
