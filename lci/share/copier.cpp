// Copies in their order: by a GPU's engine, or by the processor.
#include <cstring>

#include "lci/buffer.hpp"
#include "lci/share/gpus.hpp"

namespace lci {

namespace detail {

class buffer_copies {
 public:
  explicit buffer_copies(int device) {
    if (device != buffer::HOST) queue_ = share::need_gpus().sharing->open_copies(device);
  }
  uint64_t start(void* to, const void* from, size_t size) {
    if (queue_ != nullptr)
      queue_->start(static_cast<std::byte*>(to), static_cast<const std::byte*>(from), size);
    else if (size != 0)
      std::memcpy(to, from, size);
    return ++started_;
  }
  uint64_t ended(uint64_t number) { return queue_ != nullptr ? queue_->ended(number) : started_; }
  uint64_t started() const noexcept { return started_; }

 private:
  std::unique_ptr<mem::copy_queue> queue_;
  uint64_t started_ = 0;
};

}  // namespace detail

buffer_copier::buffer_copier(int device) : copies_(new detail::buffer_copies(device)) {}
buffer_copier::~buffer_copier() = default;

uint64_t buffer_copier::start(void* to, const void* from, size_t size) {
  return copies_->start(to, from, size);
}

uint64_t buffer_copier::ended() { return copies_->ended(0); }

void buffer_copier::wait(uint64_t number) {
  if (number > copies_->started()) {
    throw argument_error("buffer_copier::wait: copy " + std::to_string(number) +
                         " was not started; copies so far: " + std::to_string(copies_->started()));
  }
  copies_->ended(number);
}

}  // namespace lci
