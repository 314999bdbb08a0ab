// Sees the first store to a page, before it is done: so a test knows what else was in memory at
// that moment, whatever the machine's speed. Threads: any may store; one test at a time. Always
// true: the store itself is not changed; a fault elsewhere goes to who handled it before.
#pragma once

#include <signal.h>
#include <sys/mman.h>

#include <array>
#include <cstddef>
#include <functional>
#include <stdexcept>
#include <utility>

namespace lci::test {

class store_watch {
 public:
  static constexpr std::size_t PAGE_SIZE = 4096;

  // at_store reads memory and no more: it runs where a thread was interrupted.
  store_watch(void* page, std::function<void()> at_store)
      : page_(static_cast<std::byte*>(page)), at_store_(std::move(at_store)) {
    install();
    for (store_watch*& slot : all())
      if (slot == nullptr) {
        slot = this;
        arm();
        return;
      }
    throw std::runtime_error("too many watches");
  }
  ~store_watch() {
    mprotect(page_, PAGE_SIZE, PROT_READ | PROT_WRITE);
    for (store_watch*& slot : all())
      if (slot == this) slot = nullptr;
  }
  store_watch(const store_watch&) = delete;
  store_watch& operator=(const store_watch&) = delete;
  // For the next store too.
  void arm() { mprotect(page_, PAGE_SIZE, PROT_READ); }

 private:
  static std::array<store_watch*, 4>& all() {
    static std::array<store_watch*, 4> some{};
    return some;
  }
  static struct sigaction& before() {
    static struct sigaction one {};
    return one;
  }
  static void install() {
    static const bool is_done = [] {
      struct sigaction ours {};
      ours.sa_sigaction = &on_fault;
      ours.sa_flags = SA_SIGINFO | SA_NODEFER;
      return sigaction(SIGSEGV, &ours, &before()) == 0;
    }();
    if (!is_done) throw std::runtime_error("no handler");
  }
  static void on_fault(int, siginfo_t* info, void*) {
    auto* const at = static_cast<std::byte*>(info->si_addr);
    for (store_watch* const one : all())
      if (one != nullptr && at >= one->page_ && at < one->page_ + PAGE_SIZE) {
        mprotect(one->page_, PAGE_SIZE, PROT_READ | PROT_WRITE);
        one->at_store_();
        return;
      }
    sigaction(SIGSEGV, &before(), nullptr);  // the store is done again, and ends as it would have
  }

  std::byte* page_;
  std::function<void()> at_store_;
};

}  // namespace lci::test
