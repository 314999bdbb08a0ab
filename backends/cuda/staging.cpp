#include "backends/cuda/staging.hpp"

#include <algorithm>

#include "backends/cuda/pointer.hpp"
#include "lci/errors.hpp"

namespace lci::cuda {

pinned_pair::pinned_pair(gpu& g, std::size_t bytes) : gpu_(g), bytes_(bytes) {
  const std::string on = "GPU " + std::to_string(g.facts().ordinal);
  const context_scope scope(g.call(), g.context());
  check(g.call(), scope.entered(), "cuCtxPushCurrent", on);
  void* memory = nullptr;
  check(g.call(), g.call().mem_host_alloc(&memory, 2 * bytes, abi::HOST_ALLOC_PORTABLE),
        "cuMemHostAlloc", on + ", " + std::to_string(2 * bytes) + " bytes");
  memory_ = static_cast<std::byte*>(memory);
}

pinned_pair::~pinned_pair() {
  log_teardown(gpu_.call(), gpu_.call().mem_free_host(memory_), "cuMemFreeHost");
}

std::unique_ptr<pinned_pair> staging_pool::take() {
  const std::lock_guard lock(mutex_);
  if (!free_.empty()) {
    auto pair = std::move(free_.back());
    free_.pop_back();
    return pair;
  }
  if (made_ == max_pairs_) return nullptr;
  try {
    auto pair = std::make_unique<pinned_pair>(gpu_, bytes_);
    ++made_;
    return pair;
  } catch (const backend_error&) {
    if (made_ == 0) throw;
    return nullptr;  // one of those in use will do
  }
}

void staging_pool::give(std::unique_ptr<pinned_pair> pair) noexcept {
  const std::lock_guard lock(mutex_);
  free_.push_back(std::move(pair));
}

staged_transfer::staged_transfer(copier& with, staging_pool& pool, const request& what)
    : copier_(with), pool_(pool), what_(what) {
  const stage after = what.way == direction::to_host ? stage::filled : stage::empty;
  for (half& h : halves_) h.after = after;
}

staged_transfer::~staged_transfer() {
  if (pair_) pool_.give(std::move(pair_));
}

void staged_transfer::half::on_copied(const failure& why) noexcept {
  error = why;
  // edge cuda.staged: the copy and its error are seen by step(); partners are its loads of `at`.
  at.store(after, std::memory_order_release);
}

bool staged_transfer::acquire() noexcept {
  if (pair_) return true;
  try {
    pair_ = pool_.take();
  } catch (const backend_error&) {
    error_ = {abi::result::out_of_memory, "cuMemHostAlloc"};
  }
  if (!pair_) return false;
  // Small enough that a middle-sized transfer overlaps too.
  constexpr std::size_t LEAST = std::size_t{256} << 10, PAGE = 4096;
  const std::size_t quarter = (what_.size / 4 + PAGE) / PAGE * PAGE;
  piece_size_ = std::min(pair_->bytes(), std::max(LEAST, quarter));
  return true;
}

bool staged_transfer::is_copying() const noexcept {
  return std::any_of(halves_.begin(), halves_.end(), [](const half& h) {
    return h.at.load(std::memory_order_acquire) == stage::copying;  // edge cuda.staged
  });
}

bool staged_transfer::start_copy(half& h, std::size_t which) noexcept {
  const abi::device_ptr host = as_device(pair_->half(which));
  const abi::device_ptr there = what_.gpu_memory + h.offset;
  const bool out = what_.way == direction::to_host;
  const copy one{out ? host : there, out ? there : host, h.size};
  const stage before = h.at.load(std::memory_order_relaxed);  // ours until it is posted
  // Before the post: another thread's poll may complete it before this one comes back.
  h.at.store(stage::copying, std::memory_order_relaxed);
  const copy_answer answer = copier_.post(what_.way, std::span(&one, 1), {}, &h);
  if (answer.code == errorcode_t::posted) return true;
  h.at.store(before, std::memory_order_relaxed);
  if (answer.code == errorcode_t::fatal) error_ = answer.error;
  return false;
}

// GPU to host: begin copies into empty halves, hand out filled ones.
void staged_transfer::step_out() noexcept {
  while (!error_ && begun_ < what_.size) {
    half& h = halves_[next_in_];
    if (h.at.load(std::memory_order_acquire) != stage::empty) break;  // edge cuda.staged
    h.offset = begun_;
    h.size = std::min(piece_size_, what_.size - begun_);
    if (!start_copy(h, next_in_)) break;
    begun_ += h.size;
    next_in_ ^= 1;
  }
  while (!error_) {
    half& h = halves_[next_out_];
    if (h.at.load(std::memory_order_acquire) != stage::filled) break;  // edge cuda.staged
    error_ = h.error;
    if (error_ || !what_.piece(what_.arg, h.offset, pair_->half(next_out_), h.size)) break;
    passed_ += h.size;
    h.at.store(stage::empty, std::memory_order_relaxed);  // step() is single
    next_out_ ^= 1;
  }
}

// Host to GPU: have empty halves filled, copy filled ones.
void staged_transfer::step_in() noexcept {
  while (!error_) {
    half& h = halves_[next_in_];
    if (h.at.load(std::memory_order_acquire) != stage::empty) break;  // edge cuda.staged
    if (h.size != 0) {
      error_ = h.error;
      if (error_) break;
      passed_ += h.size;
      h.size = 0;
    }
    if (begun_ == what_.size) {
      // What remains is in the other half.
      if (passed_ == what_.size || halves_[next_in_ ^ 1].size == 0) break;
      next_in_ ^= 1;
      continue;
    }
    const std::size_t size = std::min(piece_size_, what_.size - begun_);
    if (!what_.piece(what_.arg, begun_, pair_->half(next_in_), size)) break;
    h.offset = begun_;
    h.size = size;
    begun_ += size;
    h.at.store(stage::filled, std::memory_order_relaxed);  // step() is single
    next_in_ ^= 1;
  }
  while (!error_ && halves_[next_out_].at.load(std::memory_order_acquire) == stage::filled) {
    if (!start_copy(halves_[next_out_], next_out_)) break;
    next_out_ ^= 1;
  }
}

bool staged_transfer::finish() noexcept {
  has_ended_ = true;
  if (pair_) pool_.give(std::move(pair_));
  if (what_.done != nullptr) what_.done->on_copied(error_);
  return true;
}

bool staged_transfer::step() noexcept {
  if (has_ended_) return true;
  if (what_.size == 0) return finish();
  if (!error_ && acquire()) {
    if (what_.way == direction::to_host) {
      step_out();
    } else {
      step_in();
    }
  }
  // After an error the other half may still be on its way.
  const bool is_through = passed_ == what_.size || error_.code != abi::result::success;
  return is_through && !is_copying() ? finish() : false;
}

}  // namespace lci::cuda
