#include "tests/accelerator/interface/buffers.hpp"

#include <cstring>

#include "tests/accelerator/gpu_kernels.hpp"

namespace accelerator_test {
namespace {

using lci::cuda::gpu_kernels;
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

void fill(place where, void* at, contents what) {
  what.at = static_cast<unsigned char*>(at);
  if (!is_gpu(where)) return lci::test::fill_here(what, what.at);
  if (gpu_kernels* const kernels = gpu_kernels::get()) return kernels->fill(what);
  std::vector<std::byte> bytes(what.count);
  lci::test::fill_here(what, reinterpret_cast<unsigned char*>(bytes.data()));
  real_gpu::get().write(at, bytes);
}

lci::test::verdict compare(place where, const void* at, contents what) {
  if (what.count == 0) return {};
  what.at = static_cast<unsigned char*>(const_cast<void*>(at));
  if (!is_gpu(where)) return lci::test::compare_here(what, what.at);
  if (gpu_kernels* const kernels = gpu_kernels::get()) return kernels->compare(what);
  const std::vector<std::byte> found = real_gpu::get().read(at, what.count);
  return lci::test::compare_here(what, reinterpret_cast<const unsigned char*>(found.data()));
}

std::vector<std::byte> bytes_of(std::uint64_t seed, std::size_t count) {
  std::vector<std::byte> bytes(count);
  lci::test::fill_here({nullptr, count, seed, 0, count},
                       reinterpret_cast<unsigned char*>(bytes.data()));
  return bytes;
}

contents message_of(std::uint64_t seed, std::size_t size) {
  return {nullptr, size, seed, 0, size, slot::GUARD / 8};
}

void slot::fill(std::uint64_t seed) const {
  const std::size_t all = size_ + 2 * GUARD;
  accelerator_test::fill(memory_->where(), front(), {nullptr, all, seed, 0, all});
}

void slot::clear(std::uint64_t seed) const {
  accelerator_test::fill(memory_->where(), front(), {nullptr, size_ + 2 * GUARD, seed, 0, 0});
}

std::string slot::check(std::uint64_t seed, std::size_t arrived) const {
  const std::size_t all = size_ + 2 * GUARD;
  const lci::test::verdict found =
      compare(memory_->where(), front(), {nullptr, all, seed, GUARD, GUARD + arrived});
  if (found.wrong == 0) return "";
  const auto first = static_cast<long>(found.first) - static_cast<long>(GUARD);
  const bool outside = found.first < GUARD || found.first >= GUARD + arrived;
  return "byte " + std::to_string(first) + " of " + std::to_string(arrived) +
         (outside ? " was written, which is outside" : " is wrong") + "; " +
         std::to_string(found.wrong) + " such bytes, in " + name_of(memory_->where()) + " memory";
}

std::string difference(const void* message, std::size_t size, std::uint64_t seed, place where) {
  const lci::test::verdict found = compare(where, message, message_of(seed, size));
  if (found.wrong == 0) return "";
  return "byte " + std::to_string(found.first) + " of " + std::to_string(size) + " is wrong; " +
         std::to_string(found.wrong) + " such bytes";
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
