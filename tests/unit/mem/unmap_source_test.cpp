#include "lci/mem/unmap_source.hpp"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>

#include "tests/support/sanitized.hpp"
#include "tests/support/scoped_env.hpp"
#include "tests/unit/mem/region_cache_fixture.hpp"

#ifdef LCI_HAVE_UCM_H
#include <ucm/api/ucm.h>
#endif

namespace lci::test {
namespace {

using testing::HasSubstr;

constexpr std::array<const char*, 1> MOCK{LCI_MOCK_UCM};

struct listener final : mem::unmap_listener {
  void on_unmap(std::uintptr_t begin, std::size_t size) noexcept override {
    last = begin;
    bytes = size;
  }
  std::uintptr_t last = 0;
  std::size_t bytes = 0;
};

int tell_mock(int event, const void* address, std::size_t size) {
  void* const library = dlopen(LCI_MOCK_UCM, RTLD_NOW);
  const auto tell =
      reinterpret_cast<int (*)(int, const void*, std::size_t)>(dlsym(library, "mock_ucm_tell"));
  const int out = tell(event, address, size);
  dlclose(library);
  return out;
}

TEST(ucm_source, start__tells_until_stop) {
  mem::ucm_source source(MOCK);
  listener to;
  ASSERT_EQ(source.start(to), "");
  EXPECT_EQ(tell_mock(mem::ucm::VM_UNMAPPED, address(5), 8192), 1) << "that of the trial is gone";
  EXPECT_EQ(to.last, page(5));
  EXPECT_EQ(to.bytes, 8192u);
  tell_mock(1 << 16, address(9), 1);  // mapped: another event
  EXPECT_EQ(to.last, page(5));
  source.stop(to);
  EXPECT_EQ(tell_mock(mem::ucm::VM_UNMAPPED, address(7), 1), 0);
  EXPECT_EQ(to.last, page(5));
}

TEST(ucm_source, start__says_why_not) {
  listener to;
  constexpr std::array<const char*, 1> MISSING{"libucm_of_nobody.so.0"};
  EXPECT_THAT(mem::ucm_source(MISSING).start(to), HasSubstr("libucm_of_nobody.so.0"));
  constexpr std::array<const char*, 1> OTHER{"libm.so.6"};
  EXPECT_THAT(mem::ucm_source(OTHER).start(to), HasSubstr("ucm_set_event_handler"));
  EXPECT_THAT(mem::ucm_source({}).start(to), HasSubstr("no library"));
  scoped_env mode;
  mode.set("LCI_MOCK_UCM", "refuse");
  EXPECT_THAT(mem::ucm_source(MOCK).start(to), HasSubstr("status -22"));
  mode.set("LCI_MOCK_UCM", "silent");
  EXPECT_THAT(mem::ucm_source(MOCK).start(to), HasSubstr("did not notice"));
  EXPECT_EQ(tell_mock(mem::ucm::VM_UNMAPPED, address(7), 1), 0) << "a handler was left behind";
}

TEST(ucm_source, cache__finds_nothing_that_the_library_told_of) {
  mem::ucm_source source(MOCK);
  fake_network network;
  mem::region_cache cache(network, {}, &source);
  EXPECT_EQ(cache.why_no_news(), "");
  mem::region_cache::failure why;
  cache.release(*cache.acquire(pages(0, 1), why));
  cache.release(*cache.acquire(pages(0, 1), why));
  EXPECT_EQ(network.asked.size(), 1u);
  tell_mock(mem::ucm::VM_UNMAPPED, address(0), PAGE);
  cache.release(*cache.acquire(pages(0, 1), why));
  EXPECT_EQ(network.asked.size(), 2u);
}

#ifdef LCI_HAVE_UCM_H
TEST(ucm_abi, is_that_of_ucm_h) {
  EXPECT_EQ(mem::ucm::VM_UNMAPPED, UCM_EVENT_VM_UNMAPPED);
  EXPECT_EQ(sizeof(ucs_status_t), sizeof(signed char));
  EXPECT_EQ(sizeof(ucm_event_type_t), sizeof(int));
  ucm_event_t theirs{};
  EXPECT_EQ(offsetof(mem::ucm::unmapped, address),
            static_cast<std::size_t>(reinterpret_cast<char*>(&theirs.vm_unmapped.address) -
                                     reinterpret_cast<char*>(&theirs)));
  EXPECT_EQ(offsetof(mem::ucm::unmapped, size),
            static_cast<std::size_t>(reinterpret_cast<char*>(&theirs.vm_unmapped.size) -
                                     reinterpret_cast<char*>(&theirs)));
  EXPECT_EQ(UCS_OK, 0);
}
#else
TEST(ucm_abi, is_that_of_ucm_h) { GTEST_SKIP() << "no ucm/api/ucm.h here (libucx-dev)"; }
#endif

// Asked for in a child, since loading it has effects.
bool has_real_library() {
  const pid_t child = fork();
  if (child == 0) _exit(dlopen("libucs.so.0", RTLD_NOW) != nullptr ? 0 : 1);
  int status = 1;
  waitpid(child, &status, 0);
  return status == 0;
}

// What the real library does cannot be undone in a process: this runs in a child. 0: as expected.
int use_real_library() {
  struct sigaction before {};
  sigaction(SIGSEGV, nullptr, &before);
  fake_network network;
  mem::region_cache cache(network, {}, &mem::system_unmap_source());
  if (!cache.why_no_news().empty()) return 1;
  struct sigaction now {};
  sigaction(SIGSEGV, nullptr, &now);
  if (now.sa_handler != before.sa_handler) return 10;
  mem::region_cache::failure why;
  constexpr std::size_t SIZE = 16 * PAGE;
  const int flags = MAP_PRIVATE | MAP_ANONYMOUS;
  char* const where = static_cast<char*>(mmap(nullptr, SIZE, PROT_READ | PROT_WRITE, flags, -1, 0));
  const auto begin = reinterpret_cast<std::uintptr_t>(where);
  const mem::cache_range all{begin, begin + SIZE, mem::mem_kind::host, 0};
  std::size_t expected = 0;
  const auto registers = [&](std::size_t more) {
    cache.release(*cache.acquire(all, why));
    expected += more;
    return network.asked.size() == expected;
  };
  if (!registers(1) || !registers(0)) return 2;
  munmap(where, SIZE);
  if (mmap(where, SIZE, PROT_READ | PROT_WRITE, flags | MAP_FIXED, -1, 0) != where) return 3;
  if (!registers(1) || !registers(0)) return 4;
  // The same in one call, by giving the pages back, and by moving them.
  if (mmap(where, SIZE, PROT_READ | PROT_WRITE, flags | MAP_FIXED, -1, 0) != where) return 5;
  if (!registers(1)) return 6;
  madvise(where, SIZE, MADV_DONTNEED);
  if (!registers(1)) return 7;
  mremap(where, SIZE, 2 * SIZE, MREMAP_MAYMOVE);
  if (!registers(1)) return 8;
  // Inside free(), which gives large blocks back.
  void* const block = std::malloc(std::size_t{64} << 20);
  const auto at = reinterpret_cast<std::uintptr_t>(block);
  const mem::cache_range in_heap{at, at + 4096, mem::mem_kind::host, 0};
  cache.release(*cache.acquire(in_heap, why));
  std::free(block);
  return cache.try_hit(in_heap) == nullptr ? 0 : 9;
}

TEST(ucm_source, real_library__notices_every_way_of_unmapping) {
  if (IS_SANITIZED) GTEST_SKIP() << "sanitizers and libucm both replace mmap";
  if (!has_real_library()) GTEST_SKIP() << "no libucs.so.0 here (package libucx0)";
  EXPECT_EXIT(std::exit(use_real_library()), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace lci::test
