// Addresses stay, offsets agree between mappings, refusals name call, size and reason.
#include "lci/mem/arena.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <new>
#include <set>
#include <thread>
#include <vector>

#include "lci/errors.hpp"
#include "lci/mem/packet_pool.hpp"
#include "tests/support/sizes.hpp"

namespace lci::mem {
namespace {

using lci::test::MIB;

// Counts down to the call that is to fail.
int calls_left = 0;
int error_to_set = 0;
bool fails_now() {
  if (calls_left-- != 0) return false;
  errno = error_to_set;
  return true;
}
int failing_create() { return fails_now() ? -1 : system_memory_file_calls().create(); }
int failing_resize(int fd, off_t size) {
  return fails_now() ? -1 : system_memory_file_calls().resize(fd, size);
}
void* failing_map(std::size_t size, int fd) {
  return fails_now() ? MAP_FAILED : system_memory_file_calls().map(size, fd);
}
constexpr memory_file_calls FAILING{failing_create, failing_resize, failing_map};
void fail_at(int nth, int error) {
  calls_left = nth;
  error_to_set = error;
}

std::size_t resident_pages() {
  std::FILE* const f = std::fopen("/proc/self/statm", "r");
  unsigned long total = 0, resident = 0;
  EXPECT_EQ(std::fscanf(f, "%lu %lu", &total, &resident), 2);
  std::fclose(f);
  return resident;
}

template <class Error, class Work>
std::string text_of(Work work) {
  try {
    work();
  } catch (const Error& e) {
    return e.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return {};
}

TEST(arena__construction, costs_no_memory) {
  const std::size_t before = resident_pages();
  const arena a;
  EXPECT_EQ(a.reserved(), arena::DEFAULT_RESERVE);
  EXPECT_EQ(a.committed(), 0u);
  EXPECT_LT(resident_pages() - before, 512u);
}

TEST(arena__construction, nth_refusal_names_call_size_and_reason) {
  fail_at(0, EMFILE);
  EXPECT_THAT(text_of<backend_error>([] { arena(64 * MIB, FAILING); }),
              testing::AllOf(testing::HasSubstr("memfd_create"), testing::HasSubstr("67108864"),
                             testing::HasSubstr(std::strerror(EMFILE))));
  fail_at(1, ENOMEM);
  EXPECT_THAT(text_of<backend_error>([] { arena(64 * MIB, FAILING); }),
              testing::AllOf(testing::HasSubstr("mmap"), testing::HasSubstr("67108864"),
                             testing::HasSubstr(std::strerror(ENOMEM))));
  fail_at(2, ENOSPC);
  arena a(64 * MIB, FAILING);
  EXPECT_THAT(text_of<backend_error>([&] { a.allocate(100); }),
              testing::AllOf(testing::HasSubstr("ftruncate"), testing::HasSubstr("2097152"),
                             testing::HasSubstr(std::strerror(ENOSPC))));
  EXPECT_EQ(a.committed(), 0u);
  EXPECT_NE(a.allocate(100), nullptr) << "the refusal changed nothing";
}

TEST(arena__construction, scarce_address_space_gives_a_smaller_range) {
  fail_at(1, ENOMEM);
  arena a(1024 * MIB, FAILING);
  EXPECT_EQ(a.reserved(), 512 * MIB);
  EXPECT_NE(a.allocate(4096), nullptr);
}

TEST(arena__construction, refusals_leak_no_descriptor) {
  const int before = dup(0);
  close(before);
  for (int nth = 0; nth < 2; ++nth) {
    fail_at(nth, ENOMEM);
    EXPECT_THROW(arena(64 * MIB, FAILING), backend_error);
  }
  { arena a(64 * MIB); }
  const int after = dup(0);
  close(after);
  EXPECT_EQ(after, before);
}

TEST(allocate__fresh, zeroed_aligned_and_never_at_offset_0) {
  arena a(64 * MIB);
  for (const std::size_t align : {std::size_t{1}, std::size_t{64}, std::size_t{4096}, 2 * MIB}) {
    auto* const p = static_cast<unsigned char*>(a.allocate(1000, align));
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(p) % std::max(align, base::CACHE_LINE), 0u);
    EXPECT_NE(a.offset_of(p), 0u);
    EXPECT_EQ(a.at(a.offset_of(p)), reinterpret_cast<std::byte*>(p));
    EXPECT_EQ(std::count(p, p + 1000, 0), 1000);
    std::memset(p, 0xff, 1000);
  }
}

TEST(allocate__distinct, blocks_do_not_overlap_and_size_0_is_one_line) {
  arena a(64 * MIB);
  std::set<std::byte*> starts;
  for (int i = 0; i < 1000; ++i) starts.insert(static_cast<std::byte*>(a.allocate(i % 130)));
  ASSERT_EQ(starts.size(), 1000u);
  std::byte* last = nullptr;
  for (std::byte* const p : starts) {
    if (last != nullptr) {
      EXPECT_GE(p - last, 64);
    }
    last = p;
  }
}

TEST(allocate__growth, file_follows_in_growing_steps) {
  arena a(256 * MIB);
  a.allocate(1);
  EXPECT_EQ(a.committed(), 2 * MIB);
  std::set<std::size_t> sizes;
  for (int i = 0; i < 200; ++i) {
    static_cast<std::byte*>(a.allocate(MIB))[MIB - 1] = std::byte{1};
    sizes.insert(a.committed());
    struct stat st {};
    ASSERT_EQ(fstat(a.fd(), &st), 0);
    EXPECT_EQ(static_cast<std::size_t>(st.st_size), a.committed());
  }
  EXPECT_LT(sizes.size(), 14u);
  EXPECT_LE(*sizes.rbegin(), a.reserved());
}

TEST(allocate__exhausted, bad_alloc_and_what_was_given_stays) {
  arena a(4 * MIB);
  auto* const p = static_cast<std::byte*>(a.allocate(3 * MIB));
  p[3 * MIB - 1] = std::byte{7};
  EXPECT_THROW(a.allocate(2 * MIB), std::bad_alloc);
  EXPECT_THROW(a.allocate(~std::size_t{0}), std::bad_alloc);
  EXPECT_THROW(a.allocate(~std::size_t{0} - 32), std::bad_alloc);
  EXPECT_THROW(a.allocate(1, 8 * MIB), std::bad_alloc);
  EXPECT_EQ(p[3 * MIB - 1], std::byte{7});
  EXPECT_NE(a.allocate(MIB / 2), nullptr);
}

TEST(free__reuse, same_size_comes_back_last_first) {
  arena a(64 * MIB);
  void* const one = a.allocate(5000);
  void* const two = a.allocate(5000);
  a.free(one, 5000);
  a.free(two, 5000);
  a.free(nullptr, 5000);
  EXPECT_NE(a.allocate(9000), two);
  EXPECT_EQ(a.allocate(4999 + 1), two);
  EXPECT_EQ(a.allocate(5000), one);
  EXPECT_NE(a.allocate(5000), one);
}

TEST(free__reuse, a_block_of_less_alignment_is_passed_over) {
  arena a(64 * MIB);
  a.allocate(64);
  void* const p = a.allocate(4096);
  ASSERT_NE(reinterpret_cast<std::uintptr_t>(p) % 4096, 0u);
  a.free(p, 4096);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(a.allocate(4096, 4096)) % 4096, 0u);
  EXPECT_EQ(a.allocate(4096), p);
}

TEST(contains__bounds, whole_range_and_nothing_else) {
  arena a(64 * MIB);
  std::byte* const base = a.at(0);
  EXPECT_TRUE(a.contains(base));
  EXPECT_TRUE(a.contains(base + a.reserved() - 1));
  EXPECT_FALSE(a.contains(base + a.reserved()));
  EXPECT_FALSE(a.contains(base - 1));
  EXPECT_FALSE(a.contains(nullptr));
}

TEST(fd__peer, a_second_mapping_sees_the_bytes_and_cannot_shrink) {
  arena a(64 * MIB);
  auto* const p = static_cast<std::byte*>(a.allocate(4096));
  const int fd = dup(a.fd());
  void* const view = mmap(nullptr, a.reserved(), PROT_READ, MAP_SHARED, fd, 0);
  ASSERT_NE(view, MAP_FAILED);
  p[17] = std::byte{42};
  EXPECT_EQ(static_cast<std::byte*>(view)[a.offset_of(p) + 17], std::byte{42});
  // Grown later, seen through the mapping made before.
  auto* const q = static_cast<std::byte*>(a.allocate(8 * MIB));
  q[8 * MIB - 1] = std::byte{43};
  EXPECT_EQ(static_cast<std::byte*>(view)[a.offset_of(q) + 8 * MIB - 1], std::byte{43});
  EXPECT_EQ(ftruncate(fd, 0), -1);
  EXPECT_EQ(errno, EPERM);
  munmap(view, a.reserved());
  close(fd);
}

TEST(allocate__threads, every_block_once) {
  arena a(256 * MIB);
  std::vector<std::vector<int*>> got(4);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 2000; ++i) {
        auto* const p = static_cast<int*>(a.allocate(256));
        *p = t;
        if (i % 3 == 0)
          a.free(p, 256);
        else
          got[t].push_back(p);
      }
    });
  }
  for (auto& t : threads) t.join();
  std::set<int*> all;
  for (int t = 0; t < 4; ++t) {
    for (int* const p : got[t]) {
      EXPECT_EQ(*p, t);
      all.insert(p);
    }
  }
  EXPECT_EQ(all.size(), got[0].size() + got[1].size() + got[2].size() + got[3].size());
}

TEST(pools, listed_as_long_as_they_live__also_those_with_packets_out) {
  arena home(MIB);
  const auto listed = [&] {
    std::vector<packet_pool*> found;
    home.for_each<mem::packet_pool>([&](packet_pool& pool) { found.push_back(&pool); });
    return found;
  };
  packet_pool first(home, 512, 10);
  {
    packet_pool second(home, 512, 10);
    EXPECT_NE(second.get(), nullptr);
    EXPECT_EQ(listed(), (std::vector<packet_pool*>{&first, &second}));
  }
  EXPECT_EQ(listed(), (std::vector<packet_pool*>{&first}));
}

}  // namespace
}  // namespace lci::mem
