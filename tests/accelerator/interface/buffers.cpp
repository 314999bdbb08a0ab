#include "tests/accelerator/interface/buffers.hpp"

#include <cstring>

namespace accelerator_test {
namespace {

using lci::cuda::real_gpu;
constexpr std::size_t VMM_PAGE = std::size_t{2} << 20;

real_gpu::kind kind_of(place where) {
  switch (where) {
    case place::pinned:
      return real_gpu::kind::pinned;
    case place::pool:
      return real_gpu::kind::pool;
    case place::vmm:
      return real_gpu::kind::vmm;
    default:
      return real_gpu::kind::device;
  }
}

std::uint64_t word(std::uint64_t seed, std::size_t index) {
  std::uint64_t x = (seed + 1) * 0x9e3779b97f4a7c15ull + index;
  x = (x ^ (x >> 29)) * 0xbf58476d1ce4e5b9ull;
  return x ^ (x >> 32);
}

std::size_t total(const std::vector<std::size_t>& sizes) {
  std::size_t sum = 0;
  for (const std::size_t size : sizes) sum += size + 4 * slot::GUARD;
  return sum;
}

}  // namespace

const char* name_of(place where) {
  constexpr const char* NAMES[] = {"host", "pinned", "device", "pool", "vmm"};
  return NAMES[static_cast<int>(where)];
}

lci::mr_t unregistered(place where, handle how) {
  if (how == handle::unknown) return lci::MR_UNKNOWN;
  return is_gpu(where) ? lci::MR_DEVICE : lci::MR_HOST;
}

block::block(place where, std::size_t size)
    : where_(where),
      size_(where == place::vmm ? (size + VMM_PAGE - 1) / VMM_PAGE * VMM_PAGE : size) {
  if (where == place::host) {
    host_.resize(size_);
    at_ = host_.data();
  } else {
    at_ = static_cast<std::byte*>(real_gpu::get().allocate(kind_of(where), size_));
  }
}

block::~block() {
  if (where_ != place::host) real_gpu::get().free(kind_of(where_), at_, size_);
}

void block::write(std::size_t offset, const std::vector<std::byte>& bytes) {
  if (is_gpu(where_)) return real_gpu::get().write(at_ + offset, bytes);
  std::memcpy(at_ + offset, bytes.data(), bytes.size());
}

std::vector<std::byte> block::read(std::size_t offset, std::size_t count) const {
  if (is_gpu(where_)) return real_gpu::get().read(at_ + offset, count);
  return {at_ + offset, at_ + offset + count};
}

std::vector<std::byte> bytes_of(std::uint64_t seed, std::size_t count) {
  std::vector<std::byte> bytes(count + 8);
  for (std::size_t i = 0; i < count; i += 8) {
    const std::uint64_t w = word(seed, i / 8);
    std::memcpy(bytes.data() + i, &w, sizeof w);
  }
  bytes.resize(count);
  return bytes;
}

void slot::fill(std::uint64_t seed) const {
  memory_->write(offset_ - GUARD, bytes_of(seed, size_ + 2 * GUARD));
}

void slot::clear(std::uint64_t seed) const {
  std::vector<std::byte> bytes = bytes_of(seed, size_ + 2 * GUARD);
  for (std::byte& b : bytes) b = ~b;
  memory_->write(offset_ - GUARD, bytes);
}

std::string slot::check(std::uint64_t seed, std::size_t arrived) const {
  const std::vector<std::byte> found = memory_->read(offset_ - GUARD, size_ + 2 * GUARD);
  std::vector<std::byte> expected = bytes_of(seed, size_ + 2 * GUARD);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (i < GUARD || i >= GUARD + arrived) expected[i] = ~expected[i];
  }
  if (found == expected) return "";
  std::size_t at = 0;
  std::size_t wrong = 0;
  for (std::size_t i = found.size(); i-- > 0;) {
    if (found[i] == expected[i]) continue;
    at = i;
    ++wrong;
  }
  const auto first = static_cast<long>(at) - static_cast<long>(GUARD);
  const bool outside = at < GUARD || at >= GUARD + arrived;
  return "byte " + std::to_string(first) + " of " + std::to_string(arrived) +
         (outside ? " was written, which is outside" : " is wrong") + "; " + std::to_string(wrong) +
         " such bytes, in " + name_of(memory_->where()) + " memory";
}

std::string difference(const void* message, std::size_t size, std::uint64_t seed) {
  const std::vector<std::byte> expected = bytes_of(seed, size + slot::GUARD);
  const auto* const found = static_cast<const std::byte*>(message);
  for (std::size_t i = 0; i < size; ++i) {
    if (found[i] != expected[slot::GUARD + i])
      return "byte " + std::to_string(i) + " of " + std::to_string(size) + " is wrong";
  }
  return "";
}

target::target(place where, const std::vector<std::size_t>& sizes) : memory_(where, total(sizes)) {
  regions_.push_back(lci::register_memory(memory_.get(), memory_.size()));
  std::size_t offset = slot::GUARD;
  for (const std::size_t size : sizes) {
    offset += slots_.size() % 3;  // aligned in different ways
    slots_.emplace_back(memory_, offset, size);
    regions_.push_back(size == 0 ? regions_.front()
                                 : lci::register_memory(memory_.get() + offset, size));
    offset = (offset + size + 2 * slot::GUARD + 7) / 8 * 8;
  }
  std::vector<lci::rmr_t> mine;
  for (const lci::mr_t region : regions_) mine.push_back(lci::get_rmr(region));
  keys_.resize(mine.size() * static_cast<std::size_t>(lci::get_rank_n()));
  lci::allgather(mine.data(), keys_.data(), mine.size() * sizeof(lci::rmr_t));
}

target::~target() {
  lci::barrier();
  for (std::size_t i = regions_.size(); i-- > 0;) {
    if (i == 0 || slots_[i - 1].size() > 0) lci::deregister_memory(&regions_[i]);
  }
}

lci::mr_t target::mr(std::size_t i, handle how) const {
  if (how == handle::whole) return regions_[0];
  if (how == handle::part) return regions_[i + 1];
  return unregistered(memory_.where(), how);
}

target::remote target::at_peer(int rank, std::size_t i, handle how) const {
  const std::size_t first = static_cast<std::size_t>(rank) * regions_.size();
  const bool alone = how == handle::part && slots_[i].size() > 0;
  // The layout is the same on all ranks.
  if (alone) return {keys_[first + i + 1], 0};
  return {keys_[first], slots_[i].offset()};
}

}  // namespace accelerator_test
