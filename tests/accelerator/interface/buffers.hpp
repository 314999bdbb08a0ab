// Memory of each kind that messages come from and go to, with contents that can be verified: what
// is expected in a buffer goes on in front of it and behind it at the source, and every byte of it
// is the wrong one at the target before, guards included. So a byte that did not arrive, a wrong
// one and one too many all show.
// Contents of GPU memory are made and compared by kernels where there are any (gpu_kernels), else
// they are copied. Threads: single. Always true: only the CUDA driver and kernels touch memory of a
// GPU.
#pragma once

#include <cstddef>
#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "lci.hpp"
#include "tests/accelerator/real_gpu.hpp"
#include "tests/support/device_code/contents.hpp"

namespace accelerator_test {

enum class place { host, pinned, device, pool, vmm };
constexpr place PLACES[] = {place::host, place::pinned, place::device, place::pool, place::vmm};
constexpr place GPU_PLACES[] = {place::device, place::pool, place::vmm};
const char* name_of(place where);
inline void PrintTo(place where, std::ostream* out) { *out << name_of(where); }
constexpr bool is_gpu(place where) { return where >= place::device; }

// How a post is told about its buffer.
enum class handle { whole, part, kind, unknown };
constexpr int HANDLES = 4;
// MR_DEVICE or MR_HOST, or MR_UNKNOWN.
lci::mr_t unregistered(place where, handle how);

using lci::test::contents;
// Writes what is expected there, and compares; `at` of the contents is filled in.
void fill(place where, void* at, contents what);
lci::test::verdict compare(place where, const void* at, contents what);

// One allocation.
class block {
 public:
  block(place where, std::size_t size);
  ~block();
  block(const block&) = delete;
  block& operator=(const block&) = delete;

  place where() const { return where_; }
  std::byte* get() const { return at_; }
  std::size_t size() const { return size_; }
  void write(std::size_t offset, const std::vector<std::byte>& bytes);
  std::vector<std::byte> read(std::size_t offset, std::size_t count) const;

 private:
  place where_;
  std::size_t size_;  // as allocated: VMM memory comes in pages of its own
  std::vector<std::byte> host_;
  std::byte* at_ = nullptr;
};

// `size` bytes inside a block, with guards around.
class slot {
 public:
  static constexpr std::size_t GUARD = 64;
  slot(block& memory, std::size_t offset, std::size_t size)
      : memory_(&memory), offset_(offset), size_(size) {}

  void* get() const { return memory_->get() + offset_; }
  std::size_t offset() const { return offset_; }
  std::size_t size() const { return size_; }
  // As a source: the bytes of `seed`, and what would follow in the guards.
  void fill(std::uint64_t seed) const;
  // As a target: no byte is what `seed` will bring.
  void clear(std::uint64_t seed) const;
  // "" if exactly the first `arrived` bytes are those of `seed`, else which is not.
  std::string check(std::uint64_t seed, std::size_t arrived) const;
  std::string check(std::uint64_t seed) const { return check(seed, size_); }

 private:
  std::byte* front() const { return memory_->get() + offset_ - GUARD; }

  block* memory_;
  std::size_t offset_;
  std::size_t size_;
};

// A block of its own with one slot, at an odd place in it.
class guarded {
 public:
  guarded(place where, std::size_t size)
      : memory_(where, size + 3 * slot::GUARD), slot_(memory_, slot::GUARD + 8, size) {}
  block& memory() { return memory_; }
  const slot* operator->() const { return &slot_; }

 private:
  block memory_;
  slot slot_;
};

// `count` bytes of `seed`; the first slot::GUARD of them belong to the front guard.
std::vector<std::byte> bytes_of(std::uint64_t seed, std::size_t count);
// The bytes between the guards of a slot that was filled with `seed`.
contents message_of(std::uint64_t seed, std::size_t size);
// What an active message brought, against such a slot.
std::string difference(const void* message, std::size_t size, std::uint64_t seed,
                       place where = place::host);

// Slots of several sizes in one block, registered as a whole and each alone, and the keys of all
// ranks to them. Collective, as is its end.
class target {
 public:
  target(place where, const std::vector<std::size_t>& sizes);
  ~target();
  target(const target&) = delete;
  target& operator=(const target&) = delete;

  std::size_t count() const { return slots_.size(); }
  const slot& at(std::size_t i) const { return slots_[i]; }
  lci::mr_t mr(std::size_t i, handle how) const;
  // Where a peer finds slot i.
  struct remote {
    lci::rmr_t rmr;
    std::uintptr_t disp;
  };
  remote at_peer(int rank, std::size_t i, handle how) const;

 private:
  block memory_;
  std::vector<slot> slots_;
  std::vector<lci::mr_t> regions_;  // the whole, then each slot that is not empty
  std::vector<lci::rmr_t> keys_;    // of all ranks, in the same order
};

}  // namespace accelerator_test
