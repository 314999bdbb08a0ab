// One operation of a transport: its pieces, how far it is, and who is to be told at its end. Made
// by link, held by it until it is quiet, and by the transfers of the program. Threads: what stands
// under "of the transport" is guarded by core::mutex_; the rest is shared.
// Always true: it ends once, and its followers are called once, with no lock held. A local buffer
// is out of use when is_quiet() says so, which may be after the end.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "lci/base/platform.hpp"
#include "lci/transfer.hpp"
#include "lci/transport/memory_table.hpp"

namespace lci::transports {

class remote_key;

class operation : public std::enable_shared_from_this<operation> {
 public:
  using time = std::chrono::steady_clock::time_point;
  struct piece {
    std::shared_ptr<memory_state> local;
    std::byte* data = nullptr;
    std::size_t size = 0;
    std::shared_ptr<remote_key> key;
    std::uint64_t address = 0;  // in the peer's process
    bool is_write = true;
  };

  // Most operations have one, which needs no memory of its own.
  class piece_list {
   public:
    void reserve(std::size_t n) { more_.reserve(n > 1 ? n - 1 : 0); }
    piece& push_back(piece&& one) {
      if (++size_ == 1) return first_ = std::move(one);
      return more_.emplace_back(std::move(one));
    }
    piece& operator[](std::size_t i) noexcept { return i == 0 ? first_ : more_[i - 1]; }
    const piece& operator[](std::size_t i) const noexcept { return i == 0 ? first_ : more_[i - 1]; }
    std::size_t size() const noexcept { return size_; }

   private:
    piece first_;
    std::vector<piece> more_;
    std::size_t size_ = 0;
  };

  explicit operation(std::weak_ptr<core> transport) : transport_(std::move(transport)) {}

  bool is_done() const noexcept {
    // edge operation.end: partner is end(), which has stored what was the outcome.
    return is_done_.load(std::memory_order_acquire);
  }
  bool is_quiet() const noexcept {
    // edge operation.quiet: partner is set_quiet(); the buffers belong to the program again.
    return is_quiet_.load(std::memory_order_acquire);
  }
  // Of an operation that is done.
  std::exception_ptr problem() const noexcept { return problem_; }
  const notification& note() const noexcept { return note_; }
  std::shared_ptr<core> transport() const noexcept { return transport_.lock(); }
  // Calls the function at the end; at once if that has been.
  void follow(transfer::callback function);
  std::size_t size() const noexcept;

  // Ends it, and collects whom to tell in `calls`: the caller runs them when it holds no lock.
  struct call {
    transfer::callback function;
    std::exception_ptr problem;
  };
  void end(std::exception_ptr problem, std::vector<call>& calls);
  void end(const notification& note, std::vector<call>& calls) {
    note_ = note;
    end(nullptr, calls);
  }
  // Of one that no other thread has seen: it was done at once.
  void end_unseen() noexcept {
    set_quiet();
    // edge operation.end: partner is is_done(), whose caller then reads the outcome.
    is_done_.store(true, std::memory_order_release);
  }
  void set_quiet() noexcept {
    // edge operation.quiet: partner is is_quiet().
    is_quiet_.store(true, std::memory_order_release);
  }

  // Of the transport.
  piece_list pieces;
  std::size_t next = 0;       // the first piece that was not posted
  std::size_t under_way = 0;  // pieces that lci has and has not completed
  bool is_counted = false;    // by the doorbell
  bool notify = false, has_notified = false, is_stopped = false;
  std::uint64_t tag = 0;
  std::uint64_t writes_before = 0;  // number of the last write posted before its notification
  time due = time::max();
  std::weak_ptr<class link> of;

  bool has_begun() const noexcept { return next != 0; }

 private:
  const std::weak_ptr<core> transport_;
  std::exception_ptr problem_;
  notification note_;
  std::mutex mutex_;  // guards followers_, and the end against them
  std::vector<transfer::callback> followers_;
  std::atomic<bool> is_done_{false}, is_quiet_{false};
};

// Runs all of them. Throws what the first threw that did.
void run(std::vector<operation::call>& calls);

}  // namespace lci::transports
