// The requests of one queue that are under way beside each other, in the order of the queue.
// Callers: card_queue. Threads: single. Always true: what a world was given stays where it is until
// the entry is taken out; entries are taken out in the order in which they were put in, and all
// that are in are of one kind.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <new>

#include "lci/device/request.hpp"
#include "lci/device/world.hpp"

namespace lci::device {

class window {
 public:
  // Inline bytes that an entry holds; requests with more go alone.
  static constexpr std::uint32_t MOST_INLINE_BYTES = 224;

  struct entry {
    request_head head;
    std::uint64_t blocks = 0;
    answer said{outcome::posted, wqe::syndrome::none};  // at once; posted: it is under way
    local_piece piece{};
    unsigned char inline_data[MOST_INLINE_BYTES];
  };

  // 0: nothing goes beside another.
  explicit window(std::uint32_t most) : most_(most) {}

  // Whether that request may be under way beside others of its kind. One with a fence, as signals
  // have, comes behind all before it.
  static bool may_take(const request& r) noexcept {
    if (r.fence != wqe::fence_mode::none) return false;
    if (r.op == wqe::opcode::rdma_read) return r.piece_count == 1 && r.length != 0;
    return r.op == wqe::opcode::rdma_write && !r.signaled &&
           (r.is_inline ? r.inline_length <= MOST_INLINE_BYTES : r.piece_count == 1);
  }
  // And beside those that are under way now. The first that may makes the entries.
  bool has_room_for(const request& r) noexcept {
    if (count_ >= most_ || (count_ != 0 && oldest().head.op != r.op)) return false;
    if (!entries_) entries_.reset(new (std::nothrow) entry[most_]);
    return entries_ != nullptr;
  }

  std::uint32_t count() const noexcept { return count_; }
  std::uint64_t blocks() const noexcept { return blocks_; }
  // The number under which the next goes, and its entry, filled but not in yet. has_room_for() it.
  std::uint32_t next_number() const noexcept { return (first_ + count_) % most_; }
  entry& fill_next(const request& r, std::uint64_t blocks, const local_piece& piece) noexcept {
    entry& e = entries_[next_number()];
    e.head = r;
    e.blocks = blocks;
    e.piece = piece;
    if (r.is_inline) {
      std::memcpy(e.inline_data, r.inline_data, r.inline_length);
      e.piece = {reinterpret_cast<std::byte*>(e.inline_data), r.inline_length};
    }
    return e;
  }
  // The filled one is in, with what the world has said at once.
  void push(answer said) noexcept {
    entry& e = entries_[next_number()];
    e.said = said;
    blocks_ += e.blocks;
    ++count_;
  }
  const entry& oldest() const noexcept { return entries_[first_]; }
  std::uint32_t oldest_number() const noexcept { return first_; }
  void pop() noexcept {
    blocks_ -= oldest().blocks;
    first_ = (first_ + 1) % most_;
    --count_;
  }

 private:
  std::unique_ptr<entry[]> entries_;
  std::uint32_t most_, first_ = 0, count_ = 0;
  std::uint64_t blocks_ = 0;  // of all that are in
};

}  // namespace lci::device
