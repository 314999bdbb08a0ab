// This process's memory as one connection has registered it: for its own operations, and for the
// peer, which is given a remote key of lci for each memory whose key it shows. Owned by link.
// Threads: single, under core::mutex_.
// Always true: a registration ends only when no operation of this side uses it, and, if the peer
// has been given it, when the peer has released it, its time for that is over, or the memory ends.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "lci/handles.hpp"
#include "lci/transport/memory_table.hpp"
#include "lci/transport/messages.hpp"

namespace lci::transports {

// One registration. Operations hold it while they are under way.
class region {
 public:
  region(std::shared_ptr<memory_state> memory, runtime_t runtime, device_t device);
  ~region();
  region(const region&) = delete;
  region& operator=(const region&) = delete;

  const std::shared_ptr<memory_state> memory;
  mr_t mr() const noexcept { return mr_; }
  rmr_t rmr() const;

 private:
  const runtime_t runtime_;
  mr_t mr_;
};

class regions {
 public:
  using time = std::chrono::steady_clock::time_point;
  static constexpr std::chrono::seconds RELEASE_TIME{1};  // for a peer to stop using a memory

  // Once connected.
  void open(runtime_t runtime, device_t device, bool with_gpu = true) {
    with_gpu_ = with_gpu;
    runtime_ = runtime;
    device_ = device;
  }
  // The registration of a memory, made if there is none. Throws what register_memory() throws.
  std::shared_ptr<region> find(const std::shared_ptr<memory_state>& memory);
  // Called for each memory that is registered.
  std::function<void(memory_state&)> on_new;
  // What the peer's question is answered. `reason` of a refusal is a sentence.
  answer admit(const ask& question);
  // Keys of that memory were withdrawn. What the peer is to be told, if it has the memory.
  std::optional<withdrawn> withdraw(std::uint64_t memory, time now);
  // The peer has released what that withdrawal took back.
  void release(std::uint64_t number);
  // The memory ends now: whatever the peer does with it. What the peer is to be told, if it had it.
  std::optional<withdrawn> forget(std::uint64_t memory);
  bool is_used_by_peer(std::uint64_t memory) const;
  // By the withdrawal of that number, and not released yet.
  bool is_leaving(std::uint64_t number) const;

  // Ends what is due; returns what the peer is to be told.
  std::vector<withdrawn> expire(time now);
  time next_due() const noexcept;
  bool has_due() const noexcept { return !leaving_.empty() || has_ends_; }
  void clear() noexcept;
  std::size_t count() const noexcept { return all_.size() + leaving_.size(); }

 private:
  struct shared_region {
    std::shared_ptr<region> held;
    bool is_shown = false;    // the peer has its remote key
    time ends = time::max();  // when the last key that was shown ends
  };
  struct leaving_region {
    withdrawn told;
    std::shared_ptr<region> held;
    time due;
  };
  bool with_gpu_ = true;  // false: peers get no memory of a GPU
  runtime_t runtime_;
  device_t device_;
  std::unordered_map<std::uint64_t, shared_region> all_;  // by memory
  bool has_ends_ = false;                                 // some key that was shown ends in time
  std::deque<leaving_region> leaving_;                    // in the order told
  std::uint64_t last_number_ = 0;                         // of the withdrawals
};

}  // namespace lci::transports
