// Mappings of GPU memory for the processor: kept, bounded, and never used for other memory.
#include "experimental/cuda/gdrcopy/gdr_mappings.hpp"

#include <cerrno>
#include <memory>
#include <thread>

#include "backends/cuda/pointer_cache.hpp"
#include "experimental/tests/unit/cuda/gdr_fixture.hpp"
#include "tests/support/race_hook.hpp"
#include "tests/support/sizes.hpp"

namespace lci::cuda {
namespace {

using lci::test::KIB, lci::test::MIB;

class gdr_mappings_test : public gdr_test {
 protected:
  explicit gdr_mappings_test(const test::mock_config& config = {}) : gdr_test(config) {
    driver_.require();
    make();
  }
  void make(const gdr_limits& limits = {}) {
    mappings_.reset();
    mappings_ = std::make_unique<gdr_mappings>(gpus_, MOCK_GDR, limits);
  }
  bool write(void* to, const std::vector<std::byte>& bytes) {
    return mappings_->write(pointers_.find(to).what, as_device(to), bytes.data(), bytes.size());
  }
  bool read_back(const void* from, std::vector<std::byte>& bytes) {
    return mappings_->read(pointers_.find(from).what, bytes.data(), as_device(from), bytes.size());
  }
  std::byte* device(std::size_t size) { return static_cast<std::byte*>(gpu_memory(size)); }
  // Both ways at that place.
  void expect_copies(std::byte* at, std::size_t size, unsigned seed) {
    const auto bytes = pattern(size, seed);
    EXPECT_TRUE(write(at, bytes));
    EXPECT_EQ(read(at, size), bytes);
    std::vector<std::byte> back(size);
    EXPECT_TRUE(read_back(at, back));
    EXPECT_EQ(back, bytes);
  }
  static std::size_t pins() { return gdr_mock().count("gdr_pin_buffer"); }

  pointer_cache pointers_{driver_};
  gpu_list gpus_{driver_};
  std::unique_ptr<gdr_mappings> mappings_;
};

TEST_F(gdr_mappings_test, copies__of_every_small_size_and_alignment_are_right) {
  std::byte* const memory = device(4 * MIB);
  for (const std::size_t size : {1, 2, 3, 4, 5, 7, 8, 63, 64, 65, 1000, 1024, 8192})
    for (const std::size_t offset : {0, 1, 3, 511, 4096 + 5})
      expect_copies(memory + offset, size, static_cast<unsigned>(size + offset));
  expect_copies(memory + 4 * MIB - 1, 1, 9);
  expect_copies(memory + 4 * MIB - 100, 100, 10);
}

TEST_F(gdr_mappings_test, window__is_pinned_once_and_kept) {
  std::byte* const memory = device(256 * KIB);
  for (unsigned i = 0; i < 10; ++i) expect_copies(memory + i * 1000, 100, i);
  EXPECT_LE(pins(), 2u) << "the memory lies in one window or two";
  EXPECT_LE(gdr_mock().pinned_bytes(), 2 * 384 * KIB);
  EXPECT_EQ(gdr_mock().count("gdr_unpin_buffer"), 0u);
}

// A write is followed by a read of the same window, which PCIe keeps behind it.
TEST_F(gdr_mappings_test, write__ends_with_a_read) {
  std::byte* const memory = device(4096);
  EXPECT_TRUE(write(memory, pattern(8, 1)));
  EXPECT_EQ(gdr_mock().count("gdr_copy_to_mapping"), 1u);
  EXPECT_EQ(gdr_mock().count("gdr_copy_from_mapping"), 1u);
}

TEST_F(gdr_mappings_test, large_allocation__is_mapped_by_windows_that_overlap) {
  make({.window = 256 * KIB});
  std::byte* const memory = device(8 * MIB);
  for (std::size_t at = 0; at + 8192 <= 2 * MIB; at += 100 * KIB)
    expect_copies(memory + at, 8192, 1);
  EXPECT_GE(pins(), 8u);
  EXPECT_LE(gdr_mock().pinned_bytes(), 9 * (256 + 64 + 64) * KIB);
}

TEST_F(gdr_mappings_test, too_long_or_outside__is_refused) {
  std::byte* const memory = device(MIB);
  EXPECT_FALSE(write(memory, pattern(gdr_limits::LONGEST + 1, 1)));
  EXPECT_FALSE(write(memory + MIB - 10, pattern(11, 1)));
  EXPECT_EQ(pins(), 0u);
}

TEST_F(gdr_mappings_test, address__that_was_freed_and_allocated_again_is_pinned_anew) {
  std::byte* const first = device(64 * KIB);
  expect_copies(first, 100, 1);
  const std::size_t before = gdr_mock().pinned_bytes();
  mock().free(first);
  std::byte* const second = device(64 * KIB);
  ASSERT_EQ(first, second) << "the mock gives the address again";
  expect_copies(second, 100, 2);  // through the old mapping the mock would end the program
  EXPECT_EQ(gdr_mock().pinned_bytes(), before) << "the old one is gone";
}

TEST_F(gdr_mappings_test, neighbours_in_one_window__have_mappings_of_their_own) {
  std::byte* const a = device(8 * KIB);
  std::byte* const b = device(8 * KIB);
  expect_copies(a, 100, 1);
  expect_copies(b, 100, 2);
  expect_copies(a, 100, 3);
  EXPECT_EQ(pins(), 2u);
  mock().free(b);
  expect_copies(a, 100, 4);
  EXPECT_EQ(pins(), 2u);
}

TEST_F(gdr_mappings_test, number__is_bounded_and_the_one_not_used_for_longest_goes) {
  std::array<std::byte*, 4> memory;
  for (auto& each : memory) each = device(4 * KIB);
  for (std::size_t victim = 0; victim < 3; ++victim) {
    make({.entries = 3});
    gdr_mock().forget_counts();
    for (unsigned i = 0; i < 3; ++i) expect_copies(memory[i], 8, i);
    const auto use_others = [&] {
      for (unsigned i = 0; i < 3; ++i)
        if (i != victim) expect_copies(memory[i], 8, i + 7);
    };
    use_others();
    expect_copies(memory[3], 8, 8);
    EXPECT_EQ(gdr_mock().count("gdr_unpin_buffer"), 1u);
    use_others();
    EXPECT_EQ(pins(), 4u) << "number " << victim << " was to go, and no other";
    expect_copies(memory[victim], 8, 9);
    EXPECT_EQ(pins(), 5u);
  }
}

TEST_F(gdr_mappings_test, bytes__are_bounded) {
  make({.bytes = MIB, .window = std::size_t{1} << 46});  // no allocation lies in two
  for (unsigned i = 0; i < 8; ++i) {
    expect_copies(device(256 * KIB), 8, i);
    EXPECT_LE(gdr_mock().pinned_bytes(), MIB);
  }
  EXPECT_GE(gdr_mock().count("gdr_unpin_buffer"), 4u);  // more if they begin amid pages of the GPU
}

// What is larger than all there may be never fits.
TEST_F(gdr_mappings_test, window_beyond_the_bound__is_refused) {
  make({.bytes = 64 * KIB});
  EXPECT_FALSE(write(device(MIB), pattern(8, 1)));
  EXPECT_EQ(pins(), 0u);
}

TEST_F(gdr_mappings_test, pin_or_map_that_fails__is_remembered_for_that_allocation) {
  for (const char* const call : {"gdr_pin_buffer", "gdr_map"}) {
    std::byte* const memory = device(4 * KIB);
    const auto bytes = pattern(8, 1);
    const std::size_t before = gdr_mock().pinned_bytes();
    gdr_mock().fail_nth(call, 1, ENOMEM);
    gdr_mock().forget_counts();
    EXPECT_FALSE(write(memory, bytes)) << call;
    EXPECT_FALSE(write(memory, bytes)) << call;
    EXPECT_EQ(pins(), 1u) << call;
    EXPECT_EQ(gdr_mock().pinned_bytes(), before) << call;
    expect_copies(device(4 * KIB), 8, 1);  // others are not the worse for it
    mock().free(memory);
    std::byte* const again = device(4 * KIB);
    ASSERT_EQ(again, memory);
    expect_copies(again, 8, 2);  // nor is the next allocation there
  }
}

TEST_F(gdr_mappings_test, copy_that_fails__is_told) {
  std::byte* const memory = device(4 * KIB);
  expect_copies(memory, 8, 1);
  std::vector<std::byte> bytes = pattern(8, 2);
  gdr_mock().fail_nth("gdr_copy_to_mapping", 1, EINVAL);
  EXPECT_FALSE(write(memory, bytes));
  gdr_mock().fail_nth("gdr_copy_from_mapping", 1, EINVAL);
  EXPECT_FALSE(read_back(memory, bytes));
  gdr_mock().fail_nth("gdr_copy_from_mapping", 1, EINVAL);
  EXPECT_FALSE(write(memory, bytes)) << "the read behind it";
  expect_copies(memory, 8, 3);
}

TEST_F(gdr_mappings_test, synchronous_copies_of_the_program__wait_or_nothing_is_mapped) {
  std::byte* const memory = device(4 * KIB);
  expect_copies(memory, 8, 1);
  EXPECT_EQ(mock().count("cuPointerSetAttribute"), 1u);
  mock().fail_nth("cuPointerSetAttribute", 1, abi::result::not_supported);
  EXPECT_FALSE(write(device(4 * KIB), pattern(8, 1)));
  EXPECT_EQ(pins(), 1u);
}

class no_rdma_test : public gdr_mappings_test {
 protected:
  no_rdma_test() : gdr_mappings_test({.direct_rdma = false}) {}
};

TEST_F(no_rdma_test, gpu_without_it__is_left_alone) {
  EXPECT_FALSE(write(device(4 * KIB), pattern(8, 1)));
  EXPECT_EQ(pins(), 0u);
}

// Between the look and the lock another thread makes the same window.
TEST_F(gdr_mappings_test, find_or_make__somebody_else_was_faster) {
  if (!test::has_race_points) GTEST_SKIP() << test::RACE_POINTS_MISSING;
  std::byte* const memory = device(4 * KIB);
  test::race_hook hook(
      "gdr_mappings.find_or_make.not_found",
      [&] { std::thread([&] { EXPECT_TRUE(write(memory + 100, pattern(8, 1))); }).join(); }, 1);
  expect_copies(memory, 8, 2);
  EXPECT_EQ(hook.hits(), 1);
  EXPECT_EQ(pins(), 1u);
}

// With room for fewer windows than there are threads, so that they evict each other's all the time.
TEST_F(gdr_mappings_test, many_threads__never_lose_a_mapping_that_they_use) {
  constexpr unsigned THREADS = 4, ROUNDS = 300;
  make({.entries = 3});
  std::array<std::byte*, 2 * THREADS> memory;
  for (auto& each : memory) each = device(4 * KIB);
  std::atomic<unsigned> copied{0};
  std::vector<std::thread> all;
  for (unsigned id = 0; id < THREADS; ++id) {
    all.emplace_back([&, id] {
      std::vector<std::byte> back(64);
      for (unsigned i = 0; i < ROUNDS; ++i) {
        std::byte* const at = memory[(id + i * 3) % memory.size()] + id * 64;
        const auto bytes = pattern(64, id * ROUNDS + i);
        if (!write(at, bytes) || !read_back(at, back)) continue;  // all are in use
        ASSERT_EQ(back, bytes);
        ++copied;
      }
    });
  }
  for (std::thread& each : all) each.join();
  EXPECT_GT(copied.load(), 0u);
  EXPECT_LE(gdr_mock().pinned_bytes(), 3 * 128 * KIB);
}

}  // namespace
}  // namespace lci::cuda
