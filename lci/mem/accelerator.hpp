// What an accelerator does for the protocols: copies between its memory and host memory, and makes
// its memory reachable for other processes of this machine. Made by a memory_domain at the first
// use of such memory, one per runtime. Callers: proto. Threads: shared, all functions; jobs and
// mapped_memory: one owner at a time.
// Always true: nothing here waits for the device, but for the destructor. A job that was handed
// over ends in exactly one on_copied(), called from a later poll() of any thread and never from
// copy(). Two jobs have no order between them; a job that was told is visible to whoever is told
// next.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "lci/types.hpp"

namespace lci::mem {

// Where the bytes go, as seen from the device whose engine copies them.
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
  int device = 0;        // whose engine: memory_place::device of its memory
  copy_way way = copy_way::to_device;
  bool is_in_reach =
      false;  // to_peer: kernels of `device` may touch both ends, not only its engine
  copy_job* next = nullptr;  // the accelerator's while the job is under way

  // error is empty when all bytes are there, else a sentence; then nothing touches the buffers any
  // more.
  virtual void on_copied(std::string_view error) noexcept = 0;

 protected:
  ~copy_job() = default;
};

// Keeps a part of a peer's memory mapped here. Empty when it could not be.
class mapped_memory {
 public:
  mapped_memory() = default;
  mapped_memory(std::byte* at, void* held, void (*release)(void*) noexcept) noexcept
      : at_(at), held_(held), release_(release) {}
  mapped_memory(mapped_memory&& other) noexcept
      : at_(std::exchange(other.at_, nullptr)),
        held_(std::exchange(other.held_, nullptr)),
        release_(other.release_) {}
  mapped_memory& operator=(mapped_memory&& other) noexcept {
    std::swap(at_, other.at_);
    std::swap(held_, other.held_);
    std::swap(release_, other.release_);
    return *this;
  }
  ~mapped_memory() {
    if (held_ != nullptr) release_(held_);
  }
  explicit operator bool() const noexcept { return at_ != nullptr; }
  std::byte* at() const noexcept { return at_; }

 private:
  std::byte* at_ = nullptr;
  void* held_ = nullptr;
  void (*release_)(void*) noexcept = nullptr;
};

// Where in the arena a peer finds what it needs to map an allocation.
struct share_place {
  std::uint64_t record = 0;  // offset in the arena, a multiple of 64; 0: cannot be shared
  std::uint32_t check = 0;   // of the record's bytes: one that was written anew in the meantime
                             // does not fit
};
inline constexpr std::size_t SHARE_RECORD_BYTES = 128;

// What the initiator knows about memory of a peer.
struct peer_range {
  int rank = -1;
  int pid = 0;                        // of the peer as seen from here; 0: not visible
  const std::byte* record = nullptr;  // SHARE_RECORD_BYTES in the peer's arena
  std::uint32_t check = 0;
  std::uint64_t address = 0;  // of the range in the peer's process: a name here
  std::size_t size = 0;
};

// A word that the processor and the streams of a program both read and write. Nothing is torn, and
// what a stream did before its write is visible to who sees the value.
using stream_word = std::atomic<std::uint64_t>;

// Bytes up to which the processor copies by itself; 0: never.
struct by_hand_limits {
  std::size_t read = 0;   // out of device memory
  std::size_t write = 0;  // into it
};

// What a stream does with such a word when it gets there.
struct stream_step {
  enum class kind : std::uint8_t { write, wait_until_equal };
  kind what = kind::write;
  stream_word* word = nullptr;
  std::uint64_t value = 0;
};

class accelerator {
 public:
  virtual ~accelerator() = default;
  // Before the first job: small copies go through a kernel of so many blocks that stays on the GPU
  // for a while. 0: none. Throws backend_error where that cannot be; what knows no
  // kernels does without.
  virtual void keep_resident(int /*blocks*/) {}
  // Before the first job: whether the calling thread may copy a few bytes from and into device
  // memory by itself, where the machine has a well-defined way for that. Throws backend_error where
  // it must (`on`) and cannot.
  virtual by_hand_limits allow_by_hand(attr_gpu_gdrcopy_t /*wanted*/) { return {}; }
  // Such a copy. True: the bytes are there on return, for whoever looks afterwards, another device
  // included. False: this memory cannot be copied so, or not now, and nothing was touched. The size
  // is not 0 and within the limits. May make calls of the system at the first use of an allocation;
  // waits for no device.
  virtual bool read_by_hand(std::byte* /*to*/, const std::byte* /*from*/,
                            std::size_t /*size*/) noexcept {
    return false;
  }
  virtual bool write_by_hand(std::byte* /*to*/, const std::byte* /*from*/,
                             std::size_t /*size*/) noexcept {
    return false;
  }
  // Takes the job over. Small jobs that come while others are under way are handed over together.
  virtual void copy(copy_job& job) noexcept = 0;
  // The same for a job that goes at once and alone, and behind it a store of `value` to `flag`, an
  // aligned word of pinned host memory: whoever sees it sees the bytes. False: not now, and the job
  // was not taken.
  virtual bool copy_and_flag(copy_job& /*job*/, std::uint64_t* /*flag*/,
                             std::uint64_t /*value*/) noexcept {
    return false;
  }
  // Hands over what was gathered and tells what has ended; answers how many.
  virtual std::size_t poll() noexcept = 0;

  // Publishes the allocation that holds [at, at + size) for peers of this machine. The record stays
  // until it is needed for another allocation. record 0: `why_not` is a sentence.
  virtual share_place share(const void* at, std::size_t size, std::string& why_not) = 0;
  // Maps what a peer has shared for copies of `device`, or finds it mapped. Empty: `why_not` is a
  // sentence. The first use of an allocation may take milliseconds.
  virtual mapped_memory map(const peer_range& what, int device, std::string& why_not) = 0;
  // Nothing of this peer is needed any more.
  virtual void forget(int rank) noexcept = 0;
  // Gives up what could not be given up without waiting for the device. Only for calls that may
  // wait: never from progress.
  virtual void tidy() noexcept {}

  // Makes host memory (also a peer's arena, mapped here) fast to copy to and from. Without it
  // copies work, slower, and the thread that hands them over is held meanwhile. Empty, or why not.
  virtual std::string pin(void* at, std::size_t size) = 0;
  virtual void unpin(void* at) noexcept = 0;

  // Streams of the program, by its own handle. These throw backend_error with a sentence: no such
  // stream, its context is gone, it cannot read and write words.
  // Whether what is put into the stream now goes into a graph.
  virtual bool is_captured(void* stream) = 0;
  // A word of value 0. It is given back once no stream will touch it any more; one that is not is
  // kept for good.
  virtual stream_word& take_word() = 0;
  virtual void put_word(stream_word& word) noexcept = 0;
  // Puts the steps behind what is in the stream, all of them or, when it throws, none.
  virtual void enqueue(void* stream, std::span<const stream_step> steps) = 0;
};

}  // namespace lci::mem
