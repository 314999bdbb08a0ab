// liblci and liblct each hold a copy of this code when they are shared libraries, and share the
// state below (docs/decisions/0036-companion-library.md).
#include "lci/boot/membership.hpp"

#include <sys/types.h>
#include <unistd.h>

#include <atomic>
#include <mutex>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "lci/base/type_stable.hpp"
#include "lci/boot/board.hpp"
#include "lci/boot/choose.hpp"
#include "lci/errors.hpp"
#include "lci/export.hpp"

namespace lci::boot {

// Visible, so that the dynamic linker merges the two into one; its members are the same in both,
// since both libraries come from one build. Weak, so that a sanitizer does not report the
// duplicate.
struct process_membership {
  std::mutex lock;
  int copies = 0;  // of this code in the process; the last one to end deletes the boards
  int users = 0;
  std::atomic<pid_t> owner{0};  // the process that joined; 0: none
  bootstrap* opened = nullptr;  // while there are users
  board_cache* boards = nullptr;
};
static_assert(std::is_trivially_destructible_v<process_membership>);
extern LCI_PUBLIC process_membership membership_of_process;
constinit process_membership membership_of_process __attribute__((weak));

namespace {

// Boards sign off when the process ends, after all static objects of the program.
struct copy_of_code {
  copy_of_code() noexcept { ++membership_of_process.copies; }
  ~copy_of_code() {
    if (--membership_of_process.copies == 0)
      delete std::exchange(membership_of_process.boards, nullptr);
  }
};
const copy_of_code this_copy;

// A process that was only forked from a member does nothing in its name. It checks that before it
// locks: a thread of its parent may have held the lock at the fork.
bool is_forked(const process_membership& shared) noexcept {
  // Relaxed: a process sees what it stored itself, and what its parent had stored at the fork.
  const pid_t owner = shared.owner.load(std::memory_order_relaxed);
  return owner != 0 && owner != ::getpid();
}
std::unique_lock<std::mutex> lock_ours(process_membership& shared) {
  if (is_forked(shared)) throw argument_error(std::string("bootstrap: ") + base::FORKED_TEXT);
  return std::unique_lock(shared.lock);
}

class member final : public bootstrap {
 public:
  member() {
    const auto guard = lock_ours(shared_);
    if (shared_.users == 0) {
      if (shared_.boards == nullptr) shared_.boards = new board_cache;
      shared_.opened = open_bootstrap(*shared_.boards).release();
      shared_.owner.store(::getpid(), std::memory_order_relaxed);
    }
    ++shared_.users;
    name_ = shared_.opened->name();
    rank_ = shared_.opened->rank();
    size_ = shared_.opened->size();
    has_news_ = shared_.opened->has_news();
  }
  ~member() override {
    if (is_forked(shared_)) return;
    const std::lock_guard guard(shared_.lock);
    if (--shared_.users != 0) return;
    delete std::exchange(shared_.opened, nullptr);
    shared_.owner.store(0, std::memory_order_relaxed);
  }

  const char* name() const noexcept override { return name_; }
  int rank() const noexcept override { return rank_; }
  int size() const noexcept override { return size_; }
  void put(const std::string& key, const std::string& value) override {
    const auto guard = lock_ours(shared_);
    shared_.opened->put(key, value);
  }
  void fence() override {
    const auto guard = lock_ours(shared_);
    shared_.opened->fence();
  }
  void fence_with(meanwhile* work) override {
    const auto guard = lock_ours(shared_);
    shared_.opened->fence_with(work);
  }
  std::string get(int rank, const std::string& key) override {
    const auto guard = lock_ours(shared_);
    return shared_.opened->get(rank, key);
  }
  void get_all(const std::string& key, const visitor& visit) override {
    const auto guard = lock_ours(shared_);
    shared_.opened->get_all(key, visit);
  }
  bool has_news() const noexcept override { return has_news_; }
  std::vector<departure> news() override {
    if (is_forked(shared_)) return {};
    const std::unique_lock guard(shared_.lock, std::try_to_lock);
    return guard.owns_lock() ? shared_.opened->news() : std::vector<departure>();
  }
  void leave() noexcept override {
    if (is_forked(shared_)) return;
    const std::lock_guard guard(shared_.lock);
    if (shared_.users == 1) shared_.opened->leave();
  }

 private:
  process_membership& shared_ = membership_of_process;
  const char* name_;
  int rank_, size_;
  bool has_news_;
};

}  // namespace

std::unique_ptr<bootstrap> join() { return std::make_unique<member>(); }

bool is_joined() noexcept {
  return membership_of_process.owner.load(std::memory_order_relaxed) == ::getpid();
}

bool is_forked() noexcept { return is_forked(membership_of_process); }

}  // namespace lci::boot
