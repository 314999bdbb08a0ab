// Does the single-stepper see what it is there for?
#include "tests/support/step_counter.hpp"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "lci/base/platform.hpp"

namespace lci::test {
namespace {

#if defined(__x86_64__)

struct alignas(64) line {
  std::uint64_t words[8];
};
line memory[64];
std::atomic<std::uint64_t> shared{0};

class step_counter : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = step_counter_missing(); !why.empty()) GTEST_SKIP() << why;
  }
  // The one section of `body`, with what the marks themselves cost taken off.
  static step_section count(void (*body)()) {
    const step_report report = count_steps([body] {
      step_begin(0);
      step_end();
      step_begin(1);
      body();
      step_end();
    });
    EXPECT_EQ(report.failure, "");
    EXPECT_EQ(report.sections.size(), 2u);
    if (report.sections.size() != 2) return {};
    EXPECT_LE(report.sections[0].instructions, 2u);
    EXPECT_EQ(report.sections[1].not_understood, 0u);
    return report.sections[1];
  }
};

TEST_F(step_counter, counts__a_known_number_of_instructions) {
  const step_section few = count([] { asm volatile("nop\n nop\n nop"); });
  const step_section more = count([] { asm volatile(".rept 103\n nop\n .endr"); });
  EXPECT_EQ(more.instructions, few.instructions + 100);
  EXPECT_EQ(more.locked, 0u);
  EXPECT_EQ(more.system_calls, 0u);
}

TEST_F(step_counter, left_out__is_not_counted_but_its_calls_are) {
  static const auto other = reinterpret_cast<long (*)(long)>(dlsym(RTLD_DEFAULT, "labs"));
  ASSERT_NE(other, nullptr);
  const auto body = [] {
    step_begin(0);
    for (int i = 0; i < 10; ++i) {
      other(-i);
      asm volatile(".rept 100\n nop\n .endr");
    }
    step_end();
  };
  const step_report all = count_steps(body);
  const step_report ours = count_steps(body, library_around(reinterpret_cast<const void*>(other)));
  ASSERT_EQ(all.failure + ours.failure, "");
  EXPECT_EQ(all.sections[0].calls_left_out, 0u);
  EXPECT_EQ(ours.sections[0].calls_left_out, 10u);
  EXPECT_GE(ours.sections[0].instructions, 1000u);
  EXPECT_LT(ours.sections[0].instructions, all.sections[0].instructions);
}

TEST_F(step_counter, locked__prefix) {
  const step_section s = count([] { asm volatile("lock incq %0" : "+m"(shared)); });
  EXPECT_EQ(s.locked, 1u);
  ASSERT_EQ(s.expensive.size(), 1u);
  EXPECT_NE(s.expensive[0].find("locked at 0x"), std::string::npos);
}

TEST_F(step_counter, locked__xchg_with_memory_but_not_between_registers) {
  EXPECT_EQ(count([] { shared.exchange(1, std::memory_order_acquire); }).locked, 1u);
  EXPECT_EQ(count([] { asm volatile("xchg %%rax, %%rcx" : : : "rax", "rcx"); }).locked, 0u);
}

TEST_F(step_counter, locked__mfence) {
  EXPECT_EQ(count([] { asm volatile("mfence" : : : "memory"); }).locked, 1u);
}

TEST_F(step_counter, locked__plain_atomics_are_not) {
  EXPECT_EQ(count([] {
              shared.store(shared.load(std::memory_order_acquire) + 1, std::memory_order_release);
              asm volatile("lfence\n sfence" : : : "memory");
            }).locked,
            0u);
}

TEST_F(step_counter, system_calls__are_seen) {
  (void)getppid();  // the dynamic linker resolves it now and not in the child
  const step_section s = count([] { (void)getppid(); });
  EXPECT_EQ(s.system_calls, 1u);
  EXPECT_EQ(s.expensive.size(), 1u);
}

TEST_F(step_counter, lines__each_line_once) {
  const step_section s = count([] {
    for (int round = 0; round < 3; ++round) {
      for (int i = 0; i < 10; ++i)
        *static_cast<volatile std::uint64_t*>(&memory[i].words[round]) = 1;
    }
  });
  EXPECT_EQ(s.lines_in(memory, sizeof memory), 10u);
  EXPECT_EQ(s.lines_in(&memory[4], 2 * sizeof(line)), 2u);
}

TEST_F(step_counter, lines__an_access_across_a_border_touches_two) {
  const step_section s = count([] {
    auto* bytes = reinterpret_cast<unsigned char*>(memory);
    asm volatile("movdqu %0, %%xmm0"
                 :
                 : "m"(*reinterpret_cast<unsigned char(*)[16]>(bytes + 56))
                 : "xmm0");
  });
  EXPECT_EQ(s.lines_in(memory, sizeof memory), 2u);
}

TEST_F(step_counter, lines__a_prefetch_or_an_address_alone_touches_none) {
  const step_section s = count([] {
    __builtin_prefetch(&memory[20], 1);
    asm volatile("lea %0, %%rax" : : "m"(memory[21]) : "rax");
  });
  EXPECT_EQ(s.lines_in(memory, sizeof memory), 0u);
}

TEST_F(step_counter, repeated_string__counts_once_and_touches_all_its_lines) {
  const step_section s = count([] {
    void* to = memory;
    std::size_t n = 5 * sizeof(line);
    asm volatile("rep stosb" : "+D"(to), "+c"(n) : "a"(0) : "memory");
  });
  EXPECT_LT(s.instructions, 20u);
  EXPECT_EQ(s.lines_in(memory, sizeof memory), 5u);
}

TEST_F(step_counter, lines__thread_local_and_indexed_operands) {
  static thread_local volatile std::uint64_t mine;
  const step_section s = count([] {
    mine = 1;
    std::uint64_t i = 3;
    asm volatile("movq $1, (%0,%1,8)" : : "r"(memory), "r"(i * 8) : "memory");
  });
  EXPECT_EQ(s.lines_in(&memory[3], sizeof(line)), 1u);
  EXPECT_EQ(s.lines_in(const_cast<std::uint64_t*>(&mine), 8), 1u);
}

TEST_F(step_counter, freeze_clock__time_stands_still_in_sections_and_between) {
  const step_report report = count_steps([] {
    if (!step_freeze_clock()) abort();
    const std::uint64_t before = base::cpu_ticks();
    step_begin(0);
    asm volatile(".rept 1000\n nop\n .endr");
    const std::uint64_t inside = base::cpu_ticks();
    step_end();
    usleep(1000);
    EXPECT_EQ(inside, before + 1);
    EXPECT_EQ(base::cpu_ticks(), inside + 1);
  });
  ASSERT_EQ(report.failure, "");
  ASSERT_EQ(report.sections.size(), 1u);
  EXPECT_GT(report.sections[0].instructions, 1000u);
  EXPECT_LT(report.sections[0].instructions, 1020u);
}

TEST_F(step_counter, shared_lines__have_one_name_through_two_mappings) {
  const int fd = memfd_create("selfcheck", MFD_CLOEXEC);
  ASSERT_EQ(ftruncate(fd, 8192), 0);
  static void* first;
  static void* second;
  first = mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  second = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 4096);
  const step_section a = count([] { *(static_cast<volatile char*>(first) + 4096 + 130) = 1; });
  const step_section b = count([] { (void)*(static_cast<volatile char*>(second) + 190); });
  ASSERT_EQ(a.shared_lines.size(), 1u);
  EXPECT_EQ(a.shared_lines[0].second, 4096u + 128u);
  EXPECT_EQ(a.shared_lines, b.shared_lines);
  munmap(first, 8192);
  munmap(second, 4096);
  close(fd);
}

TEST_F(step_counter, a_failure_or_a_death_in_the_child_is_reported) {
  const step_report failed = count_steps([] {
    // The child's text would look like a failure of this run.
    if (std::freopen("/dev/null", "w", stdout) == nullptr) return;
    ADD_FAILURE();
  });
  EXPECT_NE(failed.failure, "");
  EXPECT_NE(count_steps([] { abort(); }).failure.find("died"), std::string::npos);
}

#endif

}  // namespace
}  // namespace lci::test
