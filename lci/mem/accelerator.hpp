// What an accelerator does for the protocols: it copies between its memory and host memory, and
// makes its memory reachable for other processes of this machine. Made by a memory_domain at the
// first use of such memory, one per runtime. Callers: proto. Threads: shared, all functions; jobs
// and mapped_memory: one owner at a time.
// Always true: nothing here waits for the device, except the destructor. A job that was taken over
// ends in exactly one on_copied(), called from a later poll() of any thread and never from copy().
// Two jobs have no order between them; once on_copied() was called for a job, its bytes are visible
// to the one called for after it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "lci/types.hpp"
#include "lci/wqe/word_change.hpp"

namespace lci::mem {

// The direction of a copy, as seen from the device whose engine performs it.
enum class copy_way : std::uint8_t {
  to_device,  // from host memory
  to_peer,    // between devices, or within one; either side may be mapped_memory
  to_host
};

class copy_job {
 public:
  std::byte* to = nullptr;
  const std::byte* from = nullptr;
  std::size_t size = 0;  // bytes, not 0
  int device = 0;        // whose engine copies: memory_place::device of its memory
  copy_way way = copy_way::to_device;
  bool is_in_reach =
      false;  // to_peer: kernels of `device` may touch both ends, not only its engine
  copy_job* next = nullptr;  // belongs to the accelerator while the job is under way

  // error is empty when all bytes are there, else a sentence; after either, nothing accesses the
  // buffers any more.
  virtual void on_copied(std::string_view error) noexcept = 0;

 protected:
  ~copy_job() = default;
};

// An atomic operation on a word of device memory.
class atomic_job {
 public:
  std::byte* at = nullptr;     // aligned to the size of the change
  int device = 0;              // whose memory it is: memory_place::device
  wqe::word_change change;     // is_sound()
  std::uint64_t old = 0;       // what the word was; 4 bytes: in the low half
  atomic_job* next = nullptr;  // belongs to the accelerator while the job is under way

  // error is empty when it was performed, `old` is set, and every later reader of the word sees it;
  // else a sentence.
  virtual void on_performed(std::string_view error) noexcept = 0;

 protected:
  ~atomic_job() = default;
};

// A few bytes of host memory for device memory, and a word behind them: a put with its signal.
class delivery_job {
 public:
  static constexpr std::size_t MOST = 220;
  enum class signal : std::uint8_t { none, set, add };

  std::byte* to = nullptr;
  const std::byte* from = nullptr;  // read before deliver() returns
  std::size_t size = 0;             // bytes, at most MOST; 0: only the signal
  int device = 0;                   // whose memory `to` and `word` are
  signal what = signal::none;
  std::uint64_t* word = nullptr;  // of device memory, aligned
  std::uint64_t value = 0;
  delivery_job* next = nullptr;  // belongs to the accelerator while the job is under way

  // As on_copied(); a kernel that sees the signal sees the bytes.
  virtual void on_delivered(std::string_view error) noexcept = 0;

 protected:
  ~delivery_job() = default;
};

// Keeps a part of a peer's memory mapped here. Empty if it could not be mapped.
class mapped_memory {
 public:
  mapped_memory() = default;
  mapped_memory(std::byte* at, void* held, void (*release)(void*) noexcept,
                bool is_on_same_gpu = false) noexcept
      : at_(at), held_(held), release_(release), is_on_same_gpu_(is_on_same_gpu) {}
  mapped_memory(mapped_memory&& other) noexcept
      : at_(std::exchange(other.at_, nullptr)),
        held_(std::exchange(other.held_, nullptr)),
        release_(other.release_),
        is_on_same_gpu_(other.is_on_same_gpu_),
        has_owner_ended_(other.has_owner_ended_) {}
  mapped_memory& operator=(mapped_memory&& other) noexcept {
    std::swap(at_, other.at_);
    std::swap(held_, other.held_);
    std::swap(release_, other.release_);
    std::swap(is_on_same_gpu_, other.is_on_same_gpu_);
    std::swap(has_owner_ended_, other.has_owner_ended_);
    return *this;
  }
  ~mapped_memory() {
    if (held_ != nullptr) release_(held_);
  }
  // Empty, because the process whose memory it was has ended.
  static mapped_memory of_ended_process() noexcept {
    mapped_memory none;
    none.has_owner_ended_ = true;
    return none;
  }
  explicit operator bool() const noexcept { return at_ != nullptr; }
  bool has_owner_ended() const noexcept { return has_owner_ended_; }
  std::byte* at() const noexcept { return at_; }
  // The peer's process uses the GPU that it is mapped for.
  bool is_on_same_gpu() const noexcept { return is_on_same_gpu_; }
  // Never released, for a process in which that cannot be done.
  void detach() noexcept { held_ = nullptr; }

 private:
  std::byte* at_ = nullptr;
  void* held_ = nullptr;
  void (*release_)(void*) noexcept = nullptr;
  bool is_on_same_gpu_ = false, has_owner_ended_ = false;
};

// Where in the arena a peer finds what it needs to map an allocation.
struct share_place {
  std::uint64_t record = 0;  // offset in the arena, a multiple of 64; 0: cannot be shared
  std::uint32_t check = 0;   // of the record's bytes; fails once the record is rewritten
};
inline constexpr std::size_t SHARE_RECORD_BYTES = 128;

// What the initiator knows about memory of a peer.
struct peer_range {
  int rank = -1;
  int pid = 0;                        // of the peer as seen from here; 0: not visible
  const std::byte* record = nullptr;  // SHARE_RECORD_BYTES in the peer's arena
  std::uint32_t check = 0;
  std::uint64_t address = 0;  // of the range in the peer's process; serves only as a name here
  std::size_t size = 0;
};

// A word that both the processor and the streams of a program read and write. It is never torn, and
// what a stream did before its write is visible to a thread that sees the value.
using stream_word = std::atomic<std::uint64_t>;

// The number of bytes up to which the processor copies by itself; 0: never.
struct cpu_copy_limits {
  std::size_t read = 0;   // out of device memory
  std::size_t write = 0;  // into it
};

// What a stream does with such a word when it reaches the step.
struct stream_step {
  enum class kind : std::uint8_t { write, wait_until_equal };
  kind what = kind::write;
  stream_word* word = nullptr;
  std::uint64_t value = 0;
};

class accelerator {
 public:
  virtual ~accelerator() = default;
  // Before the first job: small copies go through a kernel of this many blocks that stays on the
  // GPU for a while. 0: no such kernel. Throws backend_error where that is impossible; an
  // accelerator without kernels ignores the call.
  virtual void keep_resident(int /*blocks*/) {}
  // Before the first job: whether the calling thread may copy a few bytes from and to device memory
  // by itself, where the machine has a well-defined way to do so. Throws backend_error where it
  // must (`on`) and cannot.
  virtual cpu_copy_limits allow_cpu_copies(attr_gpu_gdrcopy_t /*wanted*/) { return {}; }
  // Such a copy. True: on return the bytes are visible to every later reader, another device
  // included. False: this memory cannot be copied so, or not now, and nothing was touched. The size
  // is not 0 and within the limits. May make system calls at the first use of an allocation; waits
  // for no device.
  virtual bool read_by_cpu(std::byte* /*to*/, const std::byte* /*from*/,
                           std::size_t /*size*/) noexcept {
    return false;
  }
  virtual bool write_by_cpu(std::byte* /*to*/, const std::byte* /*from*/,
                            std::size_t /*size*/) noexcept {
    return false;
  }
  // Takes the job over. Small jobs that arrive while others are under way are submitted together.
  virtual void copy(copy_job& job) noexcept = 0;
  // The same for a job that is submitted at once and alone, followed by a store of `value` to
  // `flag`, an aligned word of pinned host memory: a thread that sees the value sees the bytes.
  // False: not now, and the job was not taken.
  virtual bool copy_and_flag(copy_job& /*job*/, std::uint64_t* /*flag*/,
                             std::uint64_t /*value*/) noexcept {
    return false;
  }
  // Loads what atomic() needs on that device, which may wait for kernels of the program: before any
  // of them waits for such an operation. Throws backend_error where it cannot be had; an
  // accelerator that never has them ignores the call.
  virtual void prepare_atomics(int /*device*/) {}
  // Performs it, atomic also for kernels' operations of system scope on that word. Empty: taken
  // over, and on_performed() is called once, from a later poll() of any thread. Else a sentence
  // that says why this accelerator cannot. Jobs that wait at the same time are submitted together;
  // two jobs have no order.
  virtual std::string_view atomic(atomic_job& /*job*/) noexcept {
    return "this accelerator has no kernel for atomic operations";
  }
  // The quickest way for such a job, by a kernel that runs already. False: there is none, or it is
  // not to be had now, and the job was not taken; poll() starts one that is wanted and has ended.
  virtual bool deliver(delivery_job& /*job*/) noexcept { return false; }
  // Submits what was gathered and calls on_copied() for the jobs that have ended; returns how many.
  virtual std::size_t poll() noexcept = 0;

  // Publishes the allocation that holds [at, at + size) for peers of this machine. The record stays
  // until its place is needed for another allocation. record 0: `why_not` is a sentence.
  virtual share_place share(const void* at, std::size_t size, std::string& why_not) = 0;
  // +1 as long as a caller goes on naming that place, -1 for each of those: the places of others
  // are needed first.
  virtual void hold_share(const share_place& /*place*/, int /*change*/) noexcept {}
  // Maps what a peer has shared, for copies of `device`, or finds it mapped. Empty: `why_not` is a
  // sentence. The first use of an allocation may take milliseconds.
  virtual mapped_memory map(const peer_range& what, int device, std::string& why_not) = 0;
  // Whether kernels of `device` may change words of what was mapped by atomic instructions, which
  // the owner's kernels see as such.
  virtual bool has_peer_atomics(const peer_range& /*what*/, int /*device*/) noexcept {
    return false;
  }
  // Nothing of this peer is needed any more.
  virtual void forget(int rank) noexcept = 0;
  // Releases what could not be released without waiting for the device. Only for calls that may
  // wait: never from progress.
  virtual void tidy() noexcept {}
  // +1 before kernels may begin to wait for progress, -1 once they no longer do. In between nothing
  // is released for which the device would have to be waited for, in tidy() neither.
  virtual void hold(int /*change*/) noexcept {}

  // Makes host memory (also a peer's arena, mapped here) fast to copy to and from. Without it
  // copies still work, but slower, and they hold up the thread that submits them. Returns "", or
  // why not.
  virtual std::string pin(void* at, std::size_t size) = 0;
  virtual void unpin(void* at) noexcept = 0;

  // Streams of the program, by its own handles. These throw backend_error with a sentence: no such
  // stream, its context no longer exists, or it cannot read and write words. True if what is put
  // into the stream now goes into a graph.
  virtual bool is_captured(void* stream) = 0;
  // A word of value 0. Give it back once no stream will touch it any more; a word that is not given
  // back is kept for good.
  virtual stream_word& take_word() = 0;
  virtual void put_word(stream_word& word) noexcept = 0;
  // Appends the steps to the stream: all of them or, when it throws, none.
  virtual void enqueue(void* stream, std::span<const stream_step> steps) = 0;
};

}  // namespace lci::mem
