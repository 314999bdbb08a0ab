#include "tests/support/step_counter.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "lci/base/platform.hpp"

#if defined(__x86_64__)
#include <dlfcn.h>
#include <link.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <set>
#include <sstream>
#include <string_view>
#include <unordered_map>

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

bool step_freeze_clock(bool) { return false; }
std::string step_counter_missing() { return "the single-stepper knows x86-64 only"; }
step_report count_steps(const std::function<void()>&, code_range, std::vector<code_range>) {
  return {step_counter_missing(), {}};
}

#else

namespace {

// What a child tells by its marks beside the beginnings (0 and above) and ends (-1) of sections.
constexpr int FREEZE_CLOCK = -2, LET_CLOCK_GO = -3;
constexpr long UD2 = 0x0b0f;

// Some virtual machines take no notice of PR_SET_TSC.
bool is_frozen() noexcept {
  const std::uint64_t before = base::cpu_ticks();
  return base::cpu_ticks() == before + 1;
}

// Null unless LCI_STEP_TRACE names a file; the process's id is added to the name.
std::FILE* open_trace() {
  const char* const name = std::getenv("LCI_STEP_TRACE");
  if (name == nullptr) return nullptr;
  return std::fopen((std::string(name) + "." + std::to_string(getpid())).c_str(), "w");
}

// The parent's view of one stepped child.
class stepper {
 public:
  stepper(pid_t child, code_range left_out, std::vector<code_range> watched)
      : child_(child), left_out_(left_out), watched_(std::move(watched)) {}

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
      if (stepping && replaced_.count(regs_.rip) != 0) {
        answer_clock();
        continue;
      }
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
      if ((WSTOPSIG(status) == SIGSEGV || WSTOPSIG(status) == SIGILL) && asks_clock(stepping)) {
        answer_clock();
        continue;
      }
      if (WSTOPSIG(status) != SIGTRAP) {
        pass_on = WSTOPSIG(status);
        continue;
      }
      if (stepping && !at_mark_)
        account();
      else
        mark();
      if (section_ != nullptr && regs_.rip >= left_out_.begin && regs_.rip < left_out_.end &&
          !run_left_out())
        return fail("code that is left out did not return");
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
    at_mark_ = false;
    if (id == FREEZE_CLOCK) replace_clocks();
    if (id == LET_CLOCK_GO) {
      put_clocks_back();
      clock_ = 0;
    }
    if (id < 0) return;
    section_ = &report_.sections.emplace_back();
    section_->id = id;
    stack_top_ = regs_.rsp;
  }

  // Where the processor does not stop the child at its looks at the clock, they are replaced by
  // instructions that do. What reads 64 bits puts the two halves together behind it, which tells
  // the instruction from bytes inside of another one.
  void replace_clocks() {
    constexpr std::string_view CLOCK("\x0f\x31", 2), HALVES("\x48\xc1\xe2\x20", 4);
    std::ifstream maps("/proc/" + std::to_string(child_) + "/maps");
    std::ifstream memory("/proc/" + std::to_string(child_) + "/mem", std::ios::binary);
    for (std::string text; std::getline(maps, text);) {
      std::uint64_t begin = 0, end = 0;
      char access[5] = {};
      if (std::sscanf(text.c_str(), "%lx-%lx %4s", &begin, &end, access) != 3 || access[2] != 'x' ||
          text.find('/') == std::string::npos)
        continue;
      std::string code(end - begin, '\0');
      memory.clear();
      memory.seekg(static_cast<std::streamoff>(begin));
      memory.read(code.data(), static_cast<std::streamsize>(code.size()));
      for (auto at = code.find(CLOCK); at != std::string::npos; at = code.find(CLOCK, at + 2)) {
        if (code.substr(at + 2, 16).find(HALVES) != std::string::npos) replace_clock(begin + at);
      }
    }
  }
  void replace_clock(std::uint64_t at) {
    const long word = ptrace(PTRACE_PEEKTEXT, child_, at, nullptr);
    if (ptrace(PTRACE_POKETEXT, child_, at, (word & ~0xffffl) | UD2) == 0)
      replaced_.emplace(at, word);
  }
  void put_clocks_back() {
    for (const auto& [at, word] : replaced_) ptrace(PTRACE_POKETEXT, child_, at, word);
    replaced_.clear();
  }

  // A child that has called step_freeze_clock() stops at each look at the clock.
  bool asks_clock(bool stepping) {
    if (!stepping) ptrace(PTRACE_GETREGS, child_, nullptr, &regs_);
    if (replaced_.count(regs_.rip) != 0) return true;
    look();
    return next_.reads_clock;
  }

  // It gets a time that only moves from one look to the next.
  void answer_clock() {
    if (clock_ == 0) clock_ = base::cpu_ticks();
    ++clock_;
    user_regs_struct after = regs_;
    after.rax = clock_ & 0xffffffffu;
    after.rdx = clock_ >> 32;
    const bool is_rdtscp = replaced_.count(regs_.rip) == 0 && code_[regs_.rip][1] != 0x31;
    after.rip += is_rdtscp ? 3 : 2;
    ptrace(PTRACE_SETREGS, child_, nullptr, &after);
    if (section_ != nullptr) ++section_->instructions;
    regs_ = after;
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

  // Before a step: what is about to run. regs_ is what the last stop left.
  void look() {
    const auto [at, is_new] = code_.try_emplace(regs_.rip);
    if (is_new) {
      for (int i = 0; i < 2; ++i) {
        const long word =
            ptrace(PTRACE_PEEKTEXT, child_, regs_.rip + 8u * static_cast<unsigned>(i), nullptr);
        std::memcpy(at->second.data() + 8 * i, &word, 8);
      }
    }
    at_mark_ = at->second[0] == 0xcc;
    next_ = decode_x86(at->second.data(), regs_);
  }

  // A call into code that is not counted has just been made: it runs at full speed until it
  // returns. False: it did not, with the reason.
  bool run_left_out() {
    ++section_->calls_left_out;
    const auto back =
        static_cast<std::uint64_t>(ptrace(PTRACE_PEEKDATA, child_, regs_.rsp, nullptr));
    const long word = ptrace(PTRACE_PEEKTEXT, child_, back, nullptr);
    ptrace(PTRACE_POKETEXT, child_, back, (word & ~0xffl) | 0xcc);
    const std::uint64_t stack = regs_.rsp;
    do {
      int status = 0;
      if (ptrace(PTRACE_CONT, child_, nullptr, 0) != 0 || waitpid(child_, &status, 0) != child_ ||
          !WIFSTOPPED(status) || WSTOPSIG(status) != SIGTRAP)
        return false;
      ptrace(PTRACE_GETREGS, child_, nullptr, &regs_);
    } while (regs_.rip != back + 1 || regs_.rsp <= stack);
    ptrace(PTRACE_POKETEXT, child_, back, word);
    regs_.rip = back;
    return ptrace(PTRACE_SETREGS, child_, nullptr, &regs_) == 0;
  }

  // After a step: it did run.
  void account() {
    user_regs_struct after{};
    ptrace(PTRACE_GETREGS, child_, nullptr, &after);
    // A repeated string instruction traps after each round, and moves on only after its last one.
    const bool again = next_.is_repeated && after.rip == regs_.rip;
    if (!again) {
      ++section_->instructions;
      if (trace_ != nullptr) write_trace();
      section_->not_understood += !next_.understood;
      const bool locked = next_.is_locked || next_.is_fence;
      section_->locked += locked;
      section_->system_calls += next_.is_syscall;
      if (locked || next_.is_syscall)
        section_->expensive.push_back(place(locked ? "locked" : "system call"));
      if (is_watched() && section_->watched++ == 0) section_->first_watched = place("watched");
    }
    for (const x86_access& a : next_.accesses) {
      if (a.size == 0) continue;
      const std::uint64_t first = a.address + (a.rip_relative ? after.rip : 0);
      for (std::uint64_t line = first / base::CACHE_LINE;
           line <= (first + a.size - 1) / base::CACHE_LINE; ++line) {
        touch(line * base::CACHE_LINE);
      }
    }
    regs_ = after;
  }

  // "SECTION MODULE OFFSET": addr2line -i turns it into functions.
  void write_trace() {
    Dl_info where{};
    if (dladdr(reinterpret_cast<void*>(regs_.rip), &where) != 0)
      std::fprintf(trace_.get(), "%d %s %llx\n", section_->id, where.dli_fname,
                   static_cast<unsigned long long>(
                       regs_.rip - reinterpret_cast<std::uint64_t>(where.dli_fbase)));
  }

  bool is_watched() const {
    const auto after =
        std::upper_bound(watched_.begin(), watched_.end(), regs_.rip,
                         [](std::uint64_t at, const code_range& each) { return at < each.begin; });
    return after != watched_.begin() && regs_.rip < std::prev(after)->end;
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
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> trace_{open_trace(), &std::fclose};
  const code_range left_out_;
  const std::vector<code_range> watched_;
  step_report report_;
  step_section* section_ = nullptr;  // the open one, the last of the report
  std::unordered_map<std::uint64_t, std::array<unsigned char, 16> >
      code_;                 // by address; it does not change
  bool at_mark_ = false;     // the next instruction is an int3
  user_regs_struct regs_{};  // before the step
  x86_instruction next_;
  std::uint64_t stack_top_ = 0;
  std::uint64_t clock_ = 0;                           // of a child whose clock is frozen
  std::unordered_map<std::uint64_t, long> replaced_;  // by address: the word that was there
  std::set<std::uint64_t> lines_;
  std::set<std::uint64_t> stack_lines_;
};

}  // namespace

step_report count_steps(const std::function<void()>& body, code_range left_out,
                        std::vector<code_range> watched) {
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
  step_report report = stepper(child, left_out, std::move(watched)).run();
  if (!report.failure.empty()) waitpid(child, nullptr, 0);
  return report;
}

bool step_freeze_clock(bool frozen) {
  if (!frozen && is_frozen()) step_begin(LET_CLOCK_GO);
  if (prctl(PR_SET_TSC, frozen ? PR_TSC_SIGSEGV : PR_TSC_ENABLE) != 0) return false;
  if (frozen && !is_frozen()) step_begin(FREEZE_CLOCK);
  return !frozen || is_frozen();
}

std::string step_counter_missing() {
  if (INSTRUMENTED) return "sanitizers add instructions of their own, so counts would mean nothing";
#if !defined(__OPTIMIZE__)
  return "not compiled with optimization, so counts would mean nothing";
#endif
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
