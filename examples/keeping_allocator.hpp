// An allocator for messages that reuses memory instead of returning it: the first touch of a page
// costs more than moving a page of data.
#pragma once

#include <cstdlib>
#include <vector>

#include "lci.hpp"

// Hands out blocks of one size. Threads: single, like the program that uses it.
class keeping_allocator_t : public lci::allocator_base_t {
 public:
  explicit keeping_allocator_t(size_t block_size) : block_size_(block_size) {}
  ~keeping_allocator_t() override {
    for (void* block : kept_) std::free(block);
  }
  void* allocate(size_t size) override {
    if (size > block_size_) return nullptr;
    if (kept_.empty()) return std::malloc(block_size_);
    void* block = kept_.back();
    kept_.pop_back();
    return block;
  }
  void deallocate(void* block) override { kept_.push_back(block); }

 private:
  size_t block_size_;
  std::vector<void*> kept_;
};
