#include "tests/support/running_clock.hpp"

#include <sched.h>

#include <vector>

namespace lci::test {

namespace {

std::vector<int> own_processors() {
  std::vector<int> out;
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0) return out;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &allowed)) out.push_back(cpu);
  return out;
}

// Of the calling thread. Where that is refused, it stays where it is.
void move_to(int cpu) {
  cpu_set_t only;
  CPU_ZERO(&only);
  CPU_SET(cpu, &only);
  (void)sched_setaffinity(0, sizeof(only), &only);
}

}  // namespace

running_clock::running_clock() : thread_([this] { beat(); }) {}

running_clock::~running_clock() {
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

std::uint32_t running_clock::now() const noexcept {
  using namespace std::chrono;
  return static_cast<std::uint32_t>(
      duration_cast<milliseconds>(steady_clock::now() - start_).count());
}

void running_clock::beat() {
  const std::vector<int> processors = own_processors();
  std::unique_lock lock(mutex_);
  for (std::size_t turn = 0; !is_over_; ++turn) {
    if (!processors.empty()) move_to(processors[turn % processors.size()]);
    // Nobody else writes it.
    last_.store(next(last_.load(std::memory_order_relaxed), now()), std::memory_order_relaxed);
    changed_.wait_for(lock, std::chrono::milliseconds(BEAT_MS));
  }
}

}  // namespace lci::test
