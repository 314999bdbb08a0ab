#include "tests/support/step_counter.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "lci/base/platform.hpp"

#if defined(__x86_64__)
#include <dlfcn.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <set>
#include <sstream>

#include "tests/support/x86_decode.hpp"
#endif

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define INSTRUMENTED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define INSTRUMENTED 1
#endif
#endif
#ifndef INSTRUMENTED
#define INSTRUMENTED 0
#endif

namespace lci::test {

std::uint64_t step_section::lines_in(const void* begin, std::size_t size) const {
  const auto first = reinterpret_cast<std::uint64_t>(begin) & ~(base::CACHE_LINE - 1);
  const auto low = std::lower_bound(lines.begin(), lines.end(), first);
  const auto high =
      std::lower_bound(lines.begin(), lines.end(), reinterpret_cast<std::uint64_t>(begin) + size);
  return static_cast<std::uint64_t>(high - low);
}

#if !defined(__x86_64__)

std::string step_counter_missing() { return "the single-stepper knows x86-64 only"; }
step_report count_steps(const std::function<void()>&) { return {step_counter_missing(), {}}; }

#else

namespace {

// The parent's view of one stepped child.
class stepper {
 public:
  explicit stepper(pid_t child) : child_(child) {}

  step_report run() {
    int status = 0;
    if (waitpid(child_, &status, 0) != child_ || !WIFSTOPPED(status))
      return fail("the child did not stop");
    if (ptrace(PTRACE_SETOPTIONS, child_, nullptr, PTRACE_O_EXITKILL) != 0)
      return fail("PTRACE_SETOPTIONS");
    int pass_on = 0;
    for (;;) {
      const bool stepping = section_ != nullptr;
      if (stepping) look();
      if (ptrace(stepping ? PTRACE_SINGLESTEP : PTRACE_CONT, child_, nullptr, pass_on) != 0)
        return fail("ptrace");
      if (waitpid(child_, &status, 0) != child_) return fail("waitpid");
      pass_on = 0;
      if (WIFEXITED(status)) {
        finish_section();
        if (WEXITSTATUS(status) != 0) report_.failure = "the child reported a test failure";
        return std::move(report_);
      }
      if (WIFSIGNALED(status))
        return fail(std::string("the child died: ") + strsignal(WTERMSIG(status)));
      if (WSTOPSIG(status) != SIGTRAP) {
        pass_on = WSTOPSIG(status);
        continue;
      }
      siginfo_t info{};
      ptrace(PTRACE_GETSIGINFO, child_, nullptr, &info);
      // int3 comes from the kernel's breakpoint vector, a step says that it is one.
      if (info.si_code == SI_KERNEL)
        mark();
      else if (stepping)
        account();
    }
  }

 private:
  step_report fail(const std::string& why) {
    kill(child_, SIGKILL);
    report_.failure = why;
    return std::move(report_);
  }

  void mark() {
    ptrace(PTRACE_GETREGS, child_, nullptr, &regs_);
    finish_section();
    const int id = static_cast<int>(regs_.rdi);
    if (id < 0) return;
    section_ = &report_.sections.emplace_back();
    section_->id = id;
    clock_ = base::cpu_ticks();
    stack_top_ = regs_.rsp;
  }

  void finish_section() {
    if (section_ == nullptr) return;
    section_->lines.assign(lines_.begin(), lines_.end());
    name_shared_lines();
    section_->stack_lines = stack_lines_.size();
    lines_.clear();
    stack_lines_.clear();
    section_ = nullptr;
  }

  // Before a step: what is about to run, with which registers.
  void look() {
    ptrace(PTRACE_GETREGS, child_, nullptr, &regs_);
    unsigned char code[16];
    for (int i = 0; i < 2; ++i) {
      const long word =
          ptrace(PTRACE_PEEKTEXT, child_, regs_.rip + 8u * static_cast<unsigned>(i), nullptr);
      std::memcpy(code + 8 * i, &word, 8);
    }
    next_ = decode_x86(code, regs_);
  }

  // After a step: it did run.
  void account() {
    user_regs_struct after{};
    ptrace(PTRACE_GETREGS, child_, nullptr, &after);
    if (next_.reads_clock) {
      after.rax = (clock_ + section_->instructions) & 0xffffffffu;
      after.rdx = (clock_ + section_->instructions) >> 32;
      ptrace(PTRACE_SETREGS, child_, nullptr, &after);
    }
    // A repeated string instruction traps after each round, and moves on only after its last one.
    const bool again = next_.is_repeated && after.rip == regs_.rip;
    if (!again) {
      ++section_->instructions;
      section_->not_understood += !next_.understood;
      const bool locked = next_.is_locked || next_.is_fence;
      section_->locked += locked;
      section_->system_calls += next_.is_syscall;
      if (locked || next_.is_syscall)
        section_->expensive.push_back(place(locked ? "locked" : "system call"));
    }
    for (const x86_access& a : next_.accesses) {
      if (a.size == 0) continue;
      const std::uint64_t first = a.address + (a.rip_relative ? after.rip : 0);
      for (std::uint64_t line = first / base::CACHE_LINE;
           line <= (first + a.size - 1) / base::CACHE_LINE; ++line) {
        touch(line * base::CACHE_LINE);
      }
    }
  }

  void touch(std::uint64_t line) {
    // The stack grows down from the mark; the frame that holds the mark is a little above.
    const bool is_stack = line <= stack_top_ + 65536 && line + (1u << 20) >= stack_top_;
    (is_stack ? stack_lines_ : lines_).insert(line);
  }

  // Finds the touched lines in the child's shared file mappings.
  void name_shared_lines() {
    std::ifstream maps("/proc/" + std::to_string(child_) + "/maps");
    for (std::string text; std::getline(maps, text);) {
      std::uint64_t begin = 0;
      std::uint64_t end = 0;
      std::uint64_t offset = 0;
      std::uint64_t inode = 0;
      char access[5] = {};
      if (std::sscanf(text.c_str(), "%lx-%lx %4s %lx %*s %lu", &begin, &end, access, &offset,
                      &inode) != 5)
        continue;
      if (access[3] != 's' || inode == 0) continue;
      for (auto at = lines_.lower_bound(begin); at != lines_.end() && *at < end; ++at) {
        section_->shared_lines.emplace_back(inode, *at - begin + offset);
      }
    }
    std::sort(section_->shared_lines.begin(), section_->shared_lines.end());
  }

  // The child is a fork, so its code is where ours is.
  std::string place(const char* what) const {
    std::ostringstream text;
    text << what << " at 0x" << std::hex << regs_.rip;
    Dl_info where{};
    if (dladdr(reinterpret_cast<void*>(regs_.rip), &where) != 0) {
      text << " in " << where.dli_fname << "+0x"
           << regs_.rip - reinterpret_cast<std::uint64_t>(where.dli_fbase);
      if (where.dli_sname != nullptr) text << " (" << where.dli_sname << ")";
    }
    return text.str();
  }

  const pid_t child_;
  step_report report_;
  step_section* section_ = nullptr;  // the open one, the last of the report
  user_regs_struct regs_{};          // before the step
  x86_instruction next_;
  std::uint64_t stack_top_ = 0;
  std::uint64_t clock_ = 0;  // when the section began
  std::set<std::uint64_t> lines_;
  std::set<std::uint64_t> stack_lines_;
};

}  // namespace

step_report count_steps(const std::function<void()>& body) {
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child < 0) return {"fork failed", {}};
  if (child == 0) {
    if (ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) _exit(98);
    raise(SIGSTOP);
    body();
    std::fflush(nullptr);
    _exit(testing::Test::HasFailure() ? 1 : 0);
  }
  step_report report = stepper(child).run();
  if (!report.failure.empty()) waitpid(child, nullptr, WNOHANG);
  return report;
}

std::string step_counter_missing() {
  if (INSTRUMENTED) return "sanitizers add instructions of their own, so counts would mean nothing";
  static const std::string reason = [] {
    const step_report probe = count_steps([] {
      step_begin(0);
      step_end();
    });
    return probe.failure.empty() && probe.sections.size() == 1
               ? std::string()
               : "this system does not let a process trace its child: " + probe.failure;
  }();
  return reason;
}

#endif

}  // namespace lci::test
