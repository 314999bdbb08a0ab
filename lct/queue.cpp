// Queues of pointers: the completion queues' ring for all kinds that many threads share, and a
// deque with or without a mutex for the others (docs/decisions/0036-companion-library.md).
// Threads: as the kind allows.
#include "lct/queue.h"

#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "lci/data/mpmc_queue.hpp"
#include "lci/errors.hpp"

struct LCT_queue_opaque_t {
  virtual ~LCT_queue_opaque_t() = default;
  virtual void push(void* val) = 0;
  virtual void* pop() = 0;
};

namespace {

struct no_lock {
  void lock() noexcept {}
  void unlock() noexcept {}
};

template <class Lock>
class deque_queue final : public LCT_queue_opaque_t {
 public:
  void push(void* val) override {
    const std::lock_guard guard(lock_);
    elements_.push_back(val);
  }
  void* pop() override {
    const std::lock_guard guard(lock_);
    if (elements_.empty()) return nullptr;
    void* const first = elements_.front();
    elements_.pop_front();
    return first;
  }

 private:
  Lock lock_;
  std::deque<void*> elements_;
};

class ring_queue final : public LCT_queue_opaque_t {
 public:
  explicit ring_queue(std::size_t length) : ring_(capacity_for(length)) {}
  void push(void* val) override { ring_.push(val); }
  void* pop() override {
    void* first = nullptr;
    return ring_.try_pop(first) ? first : nullptr;
  }

 private:
  // Rings have powers of two as sizes; they grow beyond the largest that is worth having at the
  // start.
  static std::size_t capacity_for(std::size_t length) noexcept {
    constexpr std::size_t MOST = std::size_t{1} << 24;
    std::size_t capacity = 2;
    while (capacity < length && capacity < MOST) capacity *= 2;
    return capacity;
  }
  lci::data::mpmc_queue<void*> ring_;
};

std::unique_ptr<LCT_queue_opaque_t> make(LCT_queue_type_t type, std::size_t length) {
  switch (type) {
    case LCT_QUEUE_ARRAY_ST:
    case LCT_QUEUE_STD:
      return std::make_unique<deque_queue<no_lock>>();
    case LCT_QUEUE_ARRAY_MUTEX:
    case LCT_QUEUE_STD_MUTEX:
      return std::make_unique<deque_queue<std::mutex>>();
    case LCT_QUEUE_ARRAY_ATOMIC_FAA:
    case LCT_QUEUE_ARRAY_ATOMIC_CAS:
    case LCT_QUEUE_ARRAY_ATOMIC_BASIC:
    case LCT_QUEUE_MS:
    case LCT_QUEUE_LCRQ:
    case LCT_QUEUE_LPRQ:
    case LCT_QUEUE_FAAARRAY:
    case LCT_QUEUE_LAZY_INDEX:
      return std::make_unique<ring_queue>(length);
  }
  throw lci::argument_error("LCT_queue_alloc(): type " + std::to_string(static_cast<int>(type)) +
                            ": expected 0 to " +
                            std::to_string(static_cast<int>(LCT_QUEUE_LAZY_INDEX)));
}

}  // namespace

extern "C" {

LCT_queue_t LCT_queue_alloc(LCT_queue_type_t type, size_t length) {
  return make(type, length).release();
}

void LCT_queue_free(LCT_queue_t* queue) {
  if (queue != nullptr) delete std::exchange(*queue, nullptr);
}

void LCT_queue_push(LCT_queue_t queue, void* val) {
  if (val == nullptr) throw lci::argument_error("LCT_queue_push(): null means an empty queue");
  queue->push(val);
}

void* LCT_queue_pop(LCT_queue_t queue) { return queue->pop(); }

}  // extern "C"
