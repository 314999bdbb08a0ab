#include "backends/cuda/lane.hpp"

#include <sched.h>

#include <utility>

#include "backends/cuda/pointer.hpp"

namespace lci::cuda {

namespace {

// Up to 24 KiB out of pinned memory the driver writes into commands for the GPU's compute engine:
// where two processes use the GPU, such a copy waits 145 us until it turns to this one. Two rows of
// half the bytes go by a copy engine, in 9 us (H200, driver of CUDA 13, November 2026). A batch
// stays one: its copies by the compute engine follow each other faster (5.6 GB/s of 16 KiB, in rows
// 3.3).
constexpr std::size_t INLINED_MAX = 24 * 1024;
// What is not larger goes by stores.
constexpr std::size_t STORED_MAX = 8;

}  // namespace

void lane::open_st(gpu& g, pinned& memory, source from) {
  call_ = &g.call();
  cuts_ = from == source::host && call_->memcpy_2d_async != nullptr;
  memory_ = &memory;
  memory.reached.store(0, std::memory_order_relaxed);  // no stream knows the word yet
  writes_ = g.facts().stream_writes;
  const std::string on = "GPU " + std::to_string(g.facts().ordinal);
  check(*call_, call_->mem_host_get_device_pointer(&reached_at_, &memory.reached, 0),
        "cuMemHostGetDevicePointer", on);
  check(*call_, call_->mem_host_get_device_pointer(&values_at_, memory.values.data(), 0),
        "cuMemHostGetDevicePointer", on);
  check(*call_, call_->stream_create(&stream_, abi::STREAM_NON_BLOCKING), "cuStreamCreate", on);
}

void lane::close_st() noexcept {
  if (stream_ == nullptr) return;
  // The stream writes into pinned memory that is about to go.
  while (call_->stream_query(stream_) == abi::result::not_ready) sched_yield();
  for (abi::event& each : events_) {
    if (each != nullptr) log_teardown(*call_, call_->event_destroy(each), "cuEventDestroy");
    each = nullptr;
  }
  log_teardown(*call_, call_->stream_destroy(stream_), "cuStreamDestroy");
  stream_ = nullptr;
}

failure lane::begin_st(std::span<const copy> copies, const flag_write& flag, void* tag) noexcept {
  if (broken_) return broken_;
  std::size_t begun = 0;
  failure error = copy_all_st(copies, begun);
  if (error && begun == 0) return error;
  tags_[issued_ % DEPTH] = tag;
  failure& refused = refused_[issued_ % DEPTH];
  refused = is_of_one_call(error.kind()) ? std::exchange(error, {}) : failure{};
  ++issued_;
  if (!error && !refused) error = write_flag_st(flag);
  if (!error) error = mark_st();
  // Something is under way that can no longer be followed: the lane ends here, and the entry is
  // given back with the error once the GPU is through with its buffers.
  if (error) broken_ = error;
  return {};
}

failure lane::begin_stores_st(std::span<const flag_write> stores, void* tag) noexcept {
  if (broken_) return broken_;
  std::array<abi::word_operation, STORES + 1> all{};
  std::size_t count = 0;
  const auto add = [&](const flag_write& one) {
    const auto what = one.bytes == 4 ? abi::memory_operation::write_value_32
                                     : abi::memory_operation::write_value_64;
    all[count++] = {what, one.address, one.value, abi::WRITE_VALUE_DEFAULT, 0, 0};
  };
  for (const flag_write& each : stores) add(each);
  add({reached_at_, issued_ + 1, 8});  // they are run in this order
  const abi::result answer =
      call_->stream_batch_mem_op(stream_, static_cast<unsigned>(count), all.data(), 0);
  if (answer != abi::result::success) return {answer, "cuStreamBatchMemOp"};
  tags_[issued_ % DEPTH] = tag;
  refused_[issued_ % DEPTH] = {};
  ++issued_;
  return {};
}

// An odd number of bytes is no two rows.
bool lane::is_cut_st(const copy& one) const noexcept {
  return cuts_ && one.size > STORED_MAX && one.size <= INLINED_MAX && one.size % 2 == 0;
}

failure lane::copy_one_st(const copy& one) noexcept {
  if (!is_cut_st(one))
    return {call_->memcpy_async(one.to, one.from, one.size, stream_), "cuMemcpyAsync"};
  abi::memcpy_2d rows;
  rows.from.type = abi::memory_type::host;  // pinned or not
  rows.from.host = reinterpret_cast<void*>(one.from);
  rows.to.type = abi::memory_type::gpu;
  rows.to.address = one.to;
  rows.width_bytes = rows.from.pitch = rows.to.pitch = one.size / 2;
  rows.height = 2;
  return {call_->memcpy_2d_async(&rows, stream_), "cuMemcpy2DAsync"};
}

failure lane::copy_all_st(std::span<const copy> copies, std::size_t& begun) noexcept {
  if (copies.size() > 1 && call_->memcpy_batch_async != nullptr) {
    std::array<abi::device_ptr, BATCH> to, from;
    std::array<std::size_t, BATCH> sizes;
    for (std::size_t i = 0; i < copies.size(); ++i) {
      to[i] = copies[i].to;
      from[i] = copies[i].from;
      sizes[i] = copies[i].size;
    }
    abi::memcpy_attributes how{};
    how.order = abi::source_order::stream_order;
    std::size_t first = 0;
    const failure error{call_->memcpy_batch_async(to.data(), from.data(), sizes.data(),
                                                  copies.size(), &how, &first, 1, stream_),
                        "cuMemcpyBatchAsync"};
    if (!error) begun = copies.size();
    return error;
  }
  for (const copy& each : copies) {
    if (const failure error = copy_one_st(each)) return error;
    ++begun;
  }
  return {};
}

failure lane::write_flag_st(const flag_write& flag) noexcept {
  if (flag.bytes == 0) return {};
  if (!writes_) {
    // A copy of the value instead, which the same stream puts behind the others.
    std::uint64_t& value = memory_->values[(issued_ - 1) % DEPTH];
    value = flag.value;  // little endian: the low half comes first
    const abi::device_ptr from =
        values_at_ + (as_device(&value) - as_device(memory_->values.data()));
    return {call_->memcpy_async(flag.address, from, flag.bytes, stream_), "cuMemcpyAsync"};
  }
  if (flag.bytes == 4) {
    return {
        call_->stream_write_value_32(stream_, flag.address, static_cast<std::uint32_t>(flag.value),
                                     abi::WRITE_VALUE_DEFAULT),
        "cuStreamWriteValue32"};
  }
  return {call_->stream_write_value_64(stream_, flag.address, flag.value, abi::WRITE_VALUE_DEFAULT),
          "cuStreamWriteValue64"};
}

failure lane::mark_st() noexcept {
  if (writes_) {
    return {call_->stream_write_value_64(stream_, reached_at_, issued_, abi::WRITE_VALUE_DEFAULT),
            "cuStreamWriteValue64"};
  }
  abi::event& mark = events_[(issued_ - 1) % DEPTH];
  if (mark == nullptr) {
    const abi::result made = call_->event_create(&mark, abi::EVENT_DISABLE_TIMING);
    if (made != abi::result::success) return {made, "cuEventCreate"};
  }
  return {call_->event_record(mark, stream_), "cuEventRecord"};
}

bool lane::has_reached_st(std::uint64_t number) noexcept {
  if (known_ >= number) return true;
  if (writes_) {
    // edge cuda.reached, other side in the GPU: its write, which it orders behind the copies before
    // it.
    known_ = memory_->reached.load(std::memory_order_acquire);
    return known_ >= number;
  }
  const abi::result answer = call_->event_query(events_[(number - 1) % DEPTH]);
  if (answer == abi::result::success) known_ = number;
  if (answer != abi::result::success && answer != abi::result::not_ready)
    broken_ = {answer, "cuEventQuery"};
  return known_ >= number;
}

bool lane::take_st(entry& out) noexcept {
  if (is_idle_st()) return false;
  const std::uint64_t number = taken_ + 1;
  // What ended before the error ended well; but a mark may be missing altogether.
  const bool has_ended = !broken_ && has_reached_st(number);
  if (!has_ended && !(broken_ && is_quiet_)) {
    ++idle_looks_;
    return false;
  }
  idle_looks_ = 0;
  const bool is_through = has_ended || known_ >= number;
  out = {tags_[taken_ % DEPTH], is_through ? refused_[taken_ % DEPTH] : broken_};
  ++taken_;
  return true;
}

void lane::abandon_st(const failure& why) noexcept {
  if (!broken_) broken_ = why;
  is_quiet_ = true;
}

void lane::examine_st() noexcept {
  idle_looks_ = 0;
  if (is_idle_st() || is_quiet_) return;
  const abi::result answer = call_->stream_query(stream_);
  if (answer == abi::result::not_ready) return;
  // Nothing writes the word any more. What it says has ended well, after an error as well.
  if (writes_ && fault_of(answer) != fault::gone)
    // edge cuda.reached, other side in the GPU
    known_ = memory_->reached.load(std::memory_order_acquire);
  if (!broken_) {
    if (answer != abi::result::success) {
      broken_ = {answer, "cuStreamQuery"};
    } else if (writes_ && known_ < issued_) {
      broken_ = {abi::result::unknown, "cuStreamWriteValue64"};  // all has run, but no word came
    }
  }
  is_quiet_ = broken_.code != abi::result::success;
}

}  // namespace lci::cuda
