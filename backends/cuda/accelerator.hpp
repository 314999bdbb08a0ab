// What CUDA does for the protocols: the copies of every GPU (copy_batcher), records of memory that
// peers may map (share_records), what is mapped of peers (peer_maps), and host memory made known to
// the driver. One per runtime, made at the first use of GPU memory. Callers: proto, through
// mem::accelerator; domain makes it. Threads: as mem::accelerator says.
// Always true: a GPU whose memory is never named is never touched; its primary context is retained
// at first need and released with this object. `pointers` and `records` live longer.
#pragma once

#include <atomic>
#include <memory>
#include <span>
#include <vector>

#include "backends/cuda/atomic_jobs.hpp"
#include "backends/cuda/copy_batcher.hpp"
#include "backends/cuda/cpu_copy.hpp"
#include "backends/cuda/peer_maps.hpp"
#include "backends/cuda/resident_image.hpp"
#include "backends/cuda/share_records.hpp"
#include "backends/cuda/stream_words.hpp"
#include "lci/mem/accelerator.hpp"

namespace lci::cuda {

struct accelerator_options {
  copier_limits limits{};
  std::size_t records = share_records::RECORDS;
  std::size_t descriptors = share_records::DESCRIPTORS;
  std::span<const unsigned char> resident_image = lci::cuda::resident_image();
  std::span<const unsigned char> atomic_image = lci::cuda::atomic_image();
  descriptor_calls calls = system_descriptor_calls();
};

class accelerator final : public mem::accelerator {
 public:
  // Throws backend_error when CUDA cannot be used. Uses no GPU yet.
  accelerator(driver& d, pointer_cache& pointers, mem::arena& records,
              const accelerator_options& options = {});
  // Polls until every job has ended; a GPU that is lost ends its jobs with an error. No thread
  // calls anything else meanwhile, and no mapped_memory is left.
  ~accelerator() override;

  // Bytes up to which it is worth while: writes through PCIe are combined and posted, a read waits
  // for each of its lines. Chosen, not measured: docs/gpu.md.
  static constexpr std::size_t READ_BY_CPU = 1024, WRITE_BY_CPU = 8192;

  void keep_resident(int blocks) override;
  mem::cpu_copy_limits allow_cpu_copies(attr_gpu_gdrcopy_t wanted) override;
  bool read_by_cpu(std::byte* to, const std::byte* from, std::size_t size) noexcept override;
  bool write_by_cpu(std::byte* to, const std::byte* from, std::size_t size) noexcept override;
  void copy(mem::copy_job& job) noexcept override;
  bool copy_and_flag(mem::copy_job& job, std::uint64_t* flag,
                     std::uint64_t value) noexcept override;
  void prepare_atomics(int device) override;
  std::string_view atomic(mem::atomic_job& job) noexcept override;
  bool deliver(mem::delivery_job& job) noexcept override;
  std::size_t poll() noexcept override;
  mem::share_place share(const void* at, std::size_t size, std::string& why_not) override;
  void hold_share(const mem::share_place& place, int change) noexcept override;
  mem::mapped_memory map(const mem::peer_range& what, int device, std::string& why_not) override;
  bool has_peer_atomics(const mem::peer_range& what, int device) noexcept override;
  void forget(int rank) noexcept override;
  void tidy() noexcept override;
  // Memory that the user has registered himself is as good, and stays his. Not counted: the first
  // unpin() ends it.
  std::string pin(void* at, std::size_t size) override;
  void unpin(void* at) noexcept override;
  bool is_captured(void* stream) override;
  mem::stream_word& take_word() override;
  void put_word(mem::stream_word& word) noexcept override;
  void enqueue(void* stream, std::span<const mem::stream_step> steps) override;
  void hold(int change) noexcept override;

 private:
  void note_use(int device) noexcept;
  void rest() noexcept;
  gpu& any_gpu();

  pointer_cache& pointers_;
  gpu_list gpus_;
  std::unique_ptr<cpu_copy> cpu_copy_;  // null: the processor copies nothing
  share_records records_;
  stream_words words_{gpus_};
  std::atomic<std::size_t> held_{0};  // words taken, and what hold() has counted
  peer_maps peers_;
  pinned_ranges pinned_;                   // what unpin() has to undo
  resident_options resident_;              // fixed before the first job
  std::atomic<int> used_{-1};              // a GPU whose context is needed anyway
  std::atomic<std::size_t> under_way_{0};  // jobs taken over and not told
  std::atomic<bool> has_missed_{false};    // a delivery found no kernel: poll() starts it
  const std::span<const unsigned char> atomic_image_;
  std::vector<std::unique_ptr<atomic_jobs>> atomics_;  // by GPU
  // By GPU, and one more for jobs that name none that exists.
  std::vector<std::unique_ptr<copy_batcher>> jobs_;
};

}  // namespace lci::cuda
