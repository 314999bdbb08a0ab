// A ring of requests that read a file into memory, host or GPU: prepare several, submit them at
// once, wait for those that have ended. GPU memory is filled through pinned slots, one a request,
// and a copy engine, so reads and copies overlap; cuFile needs no slots. You can copy this file
// into other programs, together with file_engines.hpp. Threads: one at a time. Always true: a
// request that was submitted is reported once, even if its copy fails; until then its memory is the
// ring's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "file_engines.hpp"
#include "lci/buffer.hpp"
#include "lci/memory.hpp"

struct file_request {
  void* to = nullptr;  // memory of the ring's device
  size_t size = 0;
  uint64_t offset = 0;  // in the file
  uint64_t tag = 0;     // comes back
};

struct file_result {
  uint64_t tag = 0;
  // Fewer than wanted: the end of the file; negative: an errno value, -EIO if a copy failed.
  int64_t bytes = 0;
};

struct file_ring_options {
  unsigned depth = 16;   // requests under way at most
  unsigned threads = 4;  // that read
  int device = lci::buffer::HOST;
  size_t piece = 1 << 20;            // largest request in GPU memory
  std::string engine = "auto";       // "uring", "pread" or "cufile"
  std::function<void()> gpu_thread;  // cuFile: makes the GPU's context current
};

class file_ring {
 public:
  file_ring(int file, file_ring_options options)
      : options_(std::move(options)), slots_(options_.depth) {
    engine_ = make_engine(file);
    for (size_t i = slots_.size(); i != 0; --i) free_.push_back(i - 1);
    if (options_.device == lci::buffer::HOST || direct_) return;
    copier_.reset(new lci::buffer_copier(options_.device));
    pinned_.reset(new lci::pinned_allocator_t(options_.device));
    stage_ = static_cast<char*>(pinned_->allocate(options_.depth * options_.piece));
  }
  ~file_ring() {
    try {
      std::vector<file_result> rest;
      while (under_way() != 0) wait(rest, 1);
    } catch (...) {  // a destructor cannot report it; engine and copier also wait at their ends
    }
    engine_.reset();
    copier_.reset();
    if (stage_ != nullptr) pinned_->deallocate(stage_);
  }
  file_ring(const file_ring&) = delete;
  file_ring& operator=(const file_ring&) = delete;

  // False: as many are under way as the ring holds.
  bool prepare(const file_request& one) {
    if (free_.empty()) return false;
    if (stage_ != nullptr && one.size > options_.piece)
      throw std::invalid_argument("a request is larger than a piece of the ring");
    const size_t slot = free_.back();
    free_.pop_back();
    slots_[slot] = {one, 0, 0};
    char* const to = stage_ != nullptr ? stage_of(slot) : static_cast<char*>(one.to);
    prepared_.push_back({slot, to, one.size, one.offset});
    return true;
  }
  void submit() {
    if (prepared_.empty()) return;
    engine_->start(prepared_);
    reading_ += prepared_.size();
    prepared_.clear();
  }
  // Appends what has ended, at least so many if they are under way.
  void wait(std::vector<file_result>& out, size_t at_least) {
    const size_t wanted = out.size() + (at_least < under_way() ? at_least : under_way());
    do {
      const bool must = out.size() < wanted;
      take_reads(out, must && copying_.empty());
      if (copier_) take_copies(out, must && reading_ == 0);
      if (must && out.size() < wanted && !copying_.empty() && reading_ != 0)
        std::this_thread::yield();
    } while (out.size() < wanted);
  }
  size_t under_way() const { return reading_ + copying_.size(); }
  std::string describe() const {
    return engine_->describe() +
           (stage_ != nullptr ? " into pinned memory, a copy engine from there" : "");
  }

 private:
  struct slot_t {
    file_request request;
    int64_t bytes;
    uint64_t copy;
  };
  char* stage_of(size_t slot) const { return stage_ + slot * options_.piece; }

  std::unique_ptr<file_engine_t> make_engine(int file) {
    const std::string& wanted = options_.engine;
    const bool is_gpu = options_.device != lci::buffer::HOST;
    std::string why;
    if (wanted == "cufile" || (wanted == "auto" && is_gpu)) {
      try {
        auto made = make_cufile_engine(file, options_.threads, options_.gpu_thread);
        direct_ = true;
        return made;
      } catch (const std::runtime_error& error) {
        if (wanted == "cufile") throw;
        why = std::string(error.what()) + "; ";
      }
    }
    if (wanted == "pread") return make_pread_engine(file, options_.threads);
    if (wanted != "uring" && wanted != "auto")
      throw std::invalid_argument("no engine " + wanted + ": uring, pread, cufile or auto");
#ifdef FILE_RING_HAS_URING
    try {
      return std::unique_ptr<file_engine_t>(
          new uring_engine_t(file, options_.depth, options_.threads));
    } catch (const std::runtime_error& error) {
      if (wanted == "uring") throw;
      why += error.what();
    }
#else
    why += "built without liburing";
    if (wanted == "uring") throw std::runtime_error(why);
#endif
    return make_pread_engine(file, options_.threads, " (" + why + ")");
  }

  void take_reads(std::vector<file_result>& out, bool must) {
    done_.clear();
    engine_->reap(done_, must);
    for (const file_read_done& one : done_) {
      slots_[one.slot].bytes = one.bytes;
      --reading_;
      if (copier_ && one.bytes > 0 && start_copy(one.slot)) continue;
      give_back(one.slot, out);
    }
  }
  // False: it cannot be copied. Only this request has failed; others were read as well.
  bool start_copy(size_t number) {
    slot_t& slot = slots_[number];
    try {
      slot.copy =
          copier_->start(slot.request.to, stage_of(number), static_cast<size_t>(slot.bytes));
      copying_.push_back(number);
      return true;
    } catch (const std::exception&) {
      slot.bytes = -EIO;
      return false;
    }
  }
  void take_copies(std::vector<file_result>& out, bool must) {
    if (copying_.empty()) return;
    uint64_t ended = 0;
    try {
      if (must) copier_->wait(slots_[copying_.front()].copy);
      ended = copier_->ended();
    } catch (const std::exception&) {  // the exception does not say which of them have failed
      for (const size_t slot : copying_) slots_[slot].bytes = -EIO;
      ended = slots_[copying_.back()].copy;
    }
    while (!copying_.empty() && slots_[copying_.front()].copy <= ended) {
      give_back(copying_.front(), out);
      copying_.pop_front();
    }
  }
  void give_back(size_t slot, std::vector<file_result>& out) {
    out.push_back({slots_[slot].request.tag, slots_[slot].bytes});
    free_.push_back(slot);
  }

  const file_ring_options options_;
  std::vector<slot_t> slots_;
  std::vector<size_t> free_;
  std::vector<file_read> prepared_;
  std::vector<file_read_done> done_;
  std::deque<size_t> copying_;  // slots, in the order of their copies
  size_t reading_ = 0;
  bool direct_ = false;  // the engine reads into GPU memory itself
  std::unique_ptr<lci::buffer_copier> copier_;
  std::unique_ptr<lci::pinned_allocator_t> pinned_;
  char* stage_ = nullptr;
  std::unique_ptr<file_engine_t> engine_;
};

// Reads [offset, offset + size) of the file to `to`, in pieces. Returns the number of bytes that
// the file had there; throws std::runtime_error.
inline uint64_t read_by_ring(file_ring& ring, char* to, uint64_t size, uint64_t offset,
                             size_t piece) {
  uint64_t next = 0, got = 0;
  std::vector<file_result> results;
  while (next < size || ring.under_way() != 0) {
    while (next < size) {
      const uint64_t part = size - next < piece ? size - next : piece;
      if (!ring.prepare({to + next, static_cast<size_t>(part), offset + next, next})) break;
      next += part;
    }
    ring.submit();
    results.clear();
    ring.wait(results, 1);
    for (const file_result& one : results) {
      if (one.bytes < 0)
        throw std::runtime_error(std::string("reading: ") +
                                 std::strerror(static_cast<int>(-one.bytes)));
      got += static_cast<uint64_t>(one.bytes);
    }
  }
  return got;
}
