// What bench_threads compares: lci's objects as a program uses them, and what a program would write
// in their place. Those of one kind have the same functions. Threads: all functions at any time,
// but for constructors and destructors.
#pragma once

#include <boost/lockfree/queue.hpp>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "lci.hpp"

namespace bench {

inline void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "bench_threads: %s\n", what);
  std::abort();
}

// Completion queues.

template <lci::attr_cq_type_t TYPE>
class lci_queue_of {
 public:
  static constexpr const char* NAME =
      TYPE == lci::attr_cq_type_t::per_thread ? "lci per_thread" : "lci";
  ~lci_queue_of() { lci::free_comp(&queue_); }
  void signal(const lci::status_t& status) { lci::comp_signal(queue_, status); }
  bool take(lci::status_t& status) {
    status = lci::cq_pop(queue_);
    return status.is_done();
  }

 private:
  lci::comp_t queue_ = lci::alloc_cq_x().cq_type(TYPE)();
};
using lci_queue = lci_queue_of<lci::attr_cq_type_t::lcrq>;
using lci_queue_per_thread = lci_queue_of<lci::attr_cq_type_t::per_thread>;

class locked_deque {
 public:
  static constexpr const char* NAME = "mutex and deque";
  void signal(const lci::status_t& status) {
    const std::lock_guard lock(mutex_);
    all_.push_back(status);
  }
  bool take(lci::status_t& status) {
    const std::lock_guard lock(mutex_);
    if (all_.empty()) return false;
    status = all_.front();
    all_.pop_front();
    return true;
  }

 private:
  std::mutex mutex_;
  std::deque<lci::status_t> all_;
};

class boost_queue {
 public:
  static constexpr const char* NAME = "boost::lockfree::queue";
  void signal(const lci::status_t& status) { require(all_.push(status), "no memory"); }
  bool take(lci::status_t& status) { return all_.pop(status); }

 private:
  boost::lockfree::queue<lci::status_t> all_{65536};
};

// Pools of packets.

class lci_pool {
 public:
  static constexpr const char* NAME = "lci";
  void* get() { return lci::get_upacket(); }
  void put(void* packet) { lci::put_upacket(packet); }
};

class locked_list {
 public:
  static constexpr const char* NAME = "mutex and free list";
  locked_list() {
    free_.reserve(COUNT);
    for (std::size_t i = 0; i < COUNT; ++i) free_.push_back(memory_.get() + i * SIZE);
  }
  void* get() {
    const std::lock_guard lock(mutex_);
    if (free_.empty()) return nullptr;
    void* const last = free_.back();
    free_.pop_back();
    return last;
  }
  void put(void* packet) {
    const std::lock_guard lock(mutex_);
    free_.push_back(packet);
  }

 private:
  // As many as lci's pool has: 64 for each of 512 threads, and more.
  static constexpr std::size_t COUNT = LCI_PACKET_NUM_DEFAULT, SIZE = 8192;
  std::unique_ptr<char[]> memory_{new char[COUNT * SIZE]};
  std::mutex mutex_;
  std::vector<void*> free_;
};

class heap {
 public:
  static constexpr const char* NAME = "malloc and free";
  void* get() { return std::malloc(8192); }
  void put(void* packet) { std::free(packet); }
};

// Matching. meet() returns the value of the opposite entry with that key, or null, in which case
// this one is filed.

class lci_matching {
 public:
  static constexpr const char* NAME = "lci";
  using side = lci::matching_entry_type_t;
  ~lci_matching() { lci::free_matching_engine(&engine_); }
  void* meet(std::uint64_t key, void* value, side of) {
    return lci::matching_engine_insert(engine_, key, value, of);
  }

 private:
  lci::matching_engine_t engine_ = lci::alloc_matching_engine();
};

class locked_buckets {
 public:
  static constexpr const char* NAME = "a mutex per bucket";
  using side = lci::matching_entry_type_t;
  void* meet(std::uint64_t key, void* value, side of) {
    bucket& in = buckets_[key * 0x9e3779b97f4a7c15u >> (64 - BITS)];
    const std::lock_guard lock(in.mutex);
    for (auto at = in.waiting.begin(); at != in.waiting.end(); ++at) {
      if (at->key != key || at->of == of) continue;
      void* const other = at->value;
      in.waiting.erase(at);
      return other;
    }
    in.waiting.push_back({key, value, of});
    return nullptr;
  }

 private:
  static constexpr int BITS = 16;
  struct entry {
    std::uint64_t key;
    void* value;
    side of;
  };
  struct alignas(64) bucket {
    std::mutex mutex;
    std::vector<entry> waiting;  // oldest first
  };
  std::vector<bucket> buckets_{std::size_t{1} << BITS};
};

}  // namespace bench
