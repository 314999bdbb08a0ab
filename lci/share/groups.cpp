// Parts of one buffer that are used in turn, or taken and given back.
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "lci/share/memory.hpp"

namespace lci {

buffer_ring::buffer_ring(buffer whole, size_t parts)
    : whole_(std::move(whole)), part_size_(parts == 0 ? 0 : whole_.size() / parts), parts_(parts) {
  if (part_size_ == 0) {
    throw argument_error("buffer_ring: " + std::to_string(whole_.size()) +
                         " bytes cannot be divided into " + std::to_string(parts) + " parts");
  }
}

bool buffer_ring::try_take(size_t& index) noexcept {
  if (taken() == parts_) return false;
  index = static_cast<size_t>(next_++ % parts_);
  return true;
}

void buffer_ring::give_back() {
  if (next_ == oldest_) throw argument_error("buffer_ring: no part is taken");
  ++oldest_;
}

void* buffer_ring::data(size_t index) const {
  if (index >= parts_) {
    throw argument_error("buffer_ring: part " + std::to_string(index) +
                         " does not exist; there are " + std::to_string(parts_));
  }
  return static_cast<char*>(whole_.data()) + index * part_size_;
}

namespace detail {

struct buffer_blocks {
  std::mutex mutex;          // guards the list
  std::vector<size_t> free;  // numbers of blocks; has room for all
};

}  // namespace detail

buffer_pool::buffer_pool(size_t block_size, size_t blocks, int device)
    : block_size_(block_size), blocks_(std::make_shared<detail::buffer_blocks>()) {
  if (blocks == 0 || block_size > SIZE_MAX / blocks) {
    throw argument_error("buffer_pool: " + std::to_string(blocks) + " blocks of " +
                         std::to_string(block_size) +
                         " bytes: expected at least one block, and a sum of at most " +
                         std::to_string(SIZE_MAX) + " bytes");
  }
  whole_ = buffer::create(block_size * blocks, device);
  for (size_t i = blocks; i != 0; --i) blocks_->free.push_back(i - 1);
}

buffer_pool::~buffer_pool() = default;

buffer buffer_pool::try_take() {
  size_t number = 0;
  {
    const std::lock_guard<std::mutex> lock(blocks_->mutex);
    if (blocks_->free.empty()) return buffer();
    number = blocks_->free.back();
    blocks_->free.pop_back();
  }
  auto give_back = [whole = whole_.memory_, blocks = blocks_, number](void*) mutable {
    {
      const std::lock_guard<std::mutex> lock(blocks->mutex);
      blocks->free.push_back(number);
    }
    whole.reset();  // after the block
  };
  // The whole's memory under a count of its own: slices and imports, which share it, keep the
  // block. Should there be no memory for it, the block is given back at once.
  std::shared_ptr<detail::buffer_memory> block(whole_.memory_.get(), std::move(give_back));
  return buffer(std::move(block), number * block_size_, block_size_);
}

size_t buffer_pool::free_blocks() const {
  const std::lock_guard<std::mutex> lock(blocks_->mutex);
  return blocks_->free.size();
}

}  // namespace lci
