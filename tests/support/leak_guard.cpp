#include "tests/support/leak_guard.hpp"

#include <gtest/gtest.h>

#include <sched.h>
#include <algorithm>
#include <chrono>
#include <filesystem>
#include "lci/base/platform.hpp"

namespace lci::test {
namespace fs = std::filesystem;

std::vector<std::string> open_descriptors() {
  std::vector<std::string> found;
  for (const fs::directory_entry& entry : fs::directory_iterator("/proc/self/fd")) {
    std::error_code ignored;
    const fs::path target = fs::read_symlink(entry.path(), ignored);
    // The iterator's own descriptor of /proc/self/fd is gone again when we look at the list.
    if (target.native().ends_with("/fd")) continue;
    found.push_back(entry.path().filename().native() + " -> " + target.native());
  }
  std::sort(found.begin(), found.end());
  return found;
}

std::size_t thread_count() {
  const fs::directory_iterator tasks("/proc/self/task");
  return static_cast<std::size_t>(std::distance(begin(tasks), end(tasks)));
}

leak_guard::leak_guard() : descriptors_(open_descriptors()), threads_(thread_count()) {}

leak_guard::~leak_guard() {
  if (!checked_) check();
}

void leak_guard::expect_zero(std::string what, std::function<std::size_t()> count) {
  counters_.push_back({std::move(what), std::move(count)});
}

std::vector<std::string> leak_guard::leaks() const {
  std::vector<std::string> found;
  for (const std::string& descriptor : open_descriptors()) {
    if (!std::binary_search(descriptors_.begin(), descriptors_.end(), descriptor)) {
      found.push_back("descriptor " + descriptor);
    }
  }
  // A joined thread stays in /proc for a moment after join() has returned.
  std::size_t now = thread_count();
  const auto patience = std::chrono::steady_clock::now() + std::chrono::seconds(2);
  while (!LCI_TSAN && now > threads_ && std::chrono::steady_clock::now() < patience) {
    sched_yield();
    now = thread_count();
  }
  // Thread sanitizer starts a thread of its own with the first one of the program.
  if (!LCI_TSAN && now > threads_)
    found.push_back(std::to_string(now - threads_) + " thread(s) still running");
  for (const counter& c : counters_) {
    if (const std::size_t n = c.count(); n != 0) found.push_back(std::to_string(n) + " " + c.what);
  }
  return found;
}

void leak_guard::check() {
  checked_ = true;
  for (const std::string& leak : leaks()) ADD_FAILURE() << "left behind: " << leak;
}

}  // namespace lci::test
