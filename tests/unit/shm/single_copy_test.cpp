#include "backends/shm/single_copy.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string>

#include "lci/mem/arena.hpp"
#include "tests/support/sanitized.hpp"

namespace lci::shm {
namespace {

// Our own process stands for the peer: the kernel makes no difference.
std::uint64_t address_of(const void* p) { return reinterpret_cast<std::uintptr_t>(p); }

struct own_process : testing::Test {
  void SetUp() override {
    const std::uint64_t value = 5;
    if (!single_copy_works(getpid(), address_of(&value), 5)) {
      GTEST_SKIP() << "the system forbids copies between processes";
    }
  }
};

struct peer_view {
  peer_view() : arena(std::size_t{64} << 20), regions(arena) {
    who.pid = getpid();
    who.single_copy = true;
    who.rows = reinterpret_cast<const mem::region_table::row*>(arena.at(regions.rows_offset()));
  }
  mem::arena arena;
  mem::region_table regions;
  peer who{1};
};

}  // namespace

TEST_F(own_process, works__only_if_the_value_is_the_expected_one) {
  const std::uint64_t value = 77;
  EXPECT_TRUE(single_copy_works(getpid(), address_of(&value), 77));
  EXPECT_FALSE(single_copy_works(getpid(), address_of(&value), 78)) << "another process";
  EXPECT_FALSE(single_copy_works(getpid(), 8, 77)) << "nothing is mapped there";
  EXPECT_FALSE(single_copy_works(0, address_of(&value), 77)) << "not visible from here";
}

TEST_F(own_process, write_and_read__all_bytes) {
  std::string from(100000, 'x'), to(100000, '.');
  EXPECT_EQ(single_copy_write(getpid(), address_of(to.data()), from.data(), from.size()), 0);
  EXPECT_EQ(to, from);
  to.assign(to.size(), 'y');
  EXPECT_EQ(single_copy_read(getpid(), from.data(), address_of(to.data()), to.size()), 0);
  EXPECT_EQ(from, to);
  EXPECT_EQ(single_copy_write(getpid(), 0, nullptr, 0), 0);
}

TEST_F(own_process, partial__what_lies_before_a_hole_is_no_success) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  auto* two = static_cast<std::byte*>(
      mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(two, MAP_FAILED);
  ASSERT_EQ(munmap(two + page, page), 0);
  std::string from(2 * page, 'x');
  EXPECT_EQ(single_copy_write(getpid(), address_of(two), from.data(), 2 * page), EFAULT);
  EXPECT_EQ(single_copy_write(getpid(), address_of(two), from.data(), page), 0);
  munmap(two, page);
}

TEST_F(own_process, beyond_what_one_call_moves__goes_on) {
  if (lci::test::HAS_THREAD_SANITIZER)
    GTEST_SKIP() << "one thread, and thread sanitizer notes each of 2 GiB";
  // A call moves at most 2 GiB less a page. Both sides are one file's pages, to be kind to the
  // host.
  constexpr std::size_t SIZE = (std::size_t{1} << 31) + 4096, STEP = std::size_t{64} << 20;
  auto* from = static_cast<std::byte*>(
      mmap(nullptr, SIZE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  ASSERT_NE(from, MAP_FAILED);
  const int fd = memfd_create("lci-test", MFD_CLOEXEC);
  ASSERT_EQ(ftruncate(fd, STEP), 0);
  auto* to = static_cast<std::byte*>(
      mmap(nullptr, SIZE + STEP, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  ASSERT_NE(to, MAP_FAILED);
  for (std::size_t at = 0; at < SIZE; at += STEP) {
    ASSERT_NE(mmap(to + at, STEP, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0),
              MAP_FAILED);
  }
  to[SIZE - 1 - (SIZE / STEP) * STEP] = std::byte{1};
  EXPECT_EQ(single_copy_write(getpid(), address_of(to), from, SIZE), 0);
  EXPECT_EQ(to[SIZE - 1], std::byte{0});
  munmap(to, SIZE + STEP);
  munmap(from, SIZE);
  close(fd);
}

TEST_F(own_process, copy_whole__stays_inside_the_registration) {
  peer_view v;
  std::string memory(100, '.'), text(200, 'x');
  const mem::region_name n = v.regions.insert(memory.data(), memory.size());
  const auto put = [&](put_record where, std::size_t size) {
    return copy_whole(v.who, false, where, text.data(), size);
  };
  EXPECT_EQ(put({n.slot, n.generation, 40}, 60), copied::done);
  EXPECT_EQ(memory, std::string(40, '.') + std::string(60, 'x'));
  EXPECT_EQ(put({n.slot, n.generation, 41}, 60), copied::unknown);
  EXPECT_EQ(put({n.slot, n.generation, ~std::uint64_t{0}}, 2), copied::unknown);
  EXPECT_EQ(put({n.slot, n.generation + 1, 0}, 1), copied::unknown);
  EXPECT_EQ(put({mem::region_table::MAX_REGIONS, 1, 0}, 1), copied::unknown);
  EXPECT_EQ(put({n.slot, n.generation, 100}, 0), copied::done);
  EXPECT_EQ(copy_whole(v.who, true, {n.slot, n.generation, 40}, text.data(), 60), copied::done);
  v.who.rows = nullptr;
  EXPECT_EQ(put({n.slot, n.generation, 0}, 1), copied::unknown);
}

TEST_F(own_process, copy_whole__a_registration_of_memory_that_is_gone_is_a_failure) {
  peer_view v;
  const mem::region_name n = v.regions.insert(reinterpret_cast<void*>(4096), 100);
  std::string text(100, 'x');
  EXPECT_EQ(copy_whole(v.who, false, {n.slot, n.generation, 0}, text.data(), 100), copied::failed);
}

TEST(reason_of, every_outcome_but_done_has_one) {
  EXPECT_EQ(reason_of(copied::done), nullptr);
  for (const copied c : {copied::unknown, copied::refused, copied::failed}) {
    EXPECT_NE(reason_of(c), nullptr);
  }
}

}  // namespace lci::shm
