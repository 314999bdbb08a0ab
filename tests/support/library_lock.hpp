// The lock of a library that stands in for another one. What it allocates is its own affair, as
// that of a library in C is: a test that lets its own allocations fail is told when a thread is
// inside.
// Threads: shared; call_around() while nobody is inside.
#pragma once

namespace lci::test {

template <class Mutex>
class library_lock {
 public:
  void lock() {
    mutex_.lock();
    if (begin_ != nullptr) begin_();
  }
  void unlock() {
    if (end_ != nullptr) end_();
    mutex_.unlock();
  }
  void call_around(void (*begin)(), void (*end)()) {
    begin_ = begin;
    end_ = end;
  }

 private:
  Mutex mutex_;
  void (*begin_)() = nullptr;
  void (*end_)() = nullptr;
};

}  // namespace lci::test
