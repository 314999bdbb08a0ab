// Costs of a transport as counts: a write of 8 bytes with notification over shared memory, and what
// takes the notification, both sides awake. One process and one thread have both ends.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "lci/transport.hpp"
#include "tests/support/alloc_counter.hpp"
#include "tests/support/step_counter.hpp"

namespace {

using lci::test::step_begin;
using lci::test::step_end;
using lci::test::step_section;

constexpr int WARM_UP = 2000, STEPPED = 30;
enum section_id { WRITE, WAIT };

// Who waits does not fall asleep.
lci::transport_options spinning() {
  lci::transport_options options;
  options.spin_s = 1000;
  return options;
}

struct ends {
  ends()
      : a(spinning()),
        b(spinning()),
        here(1),
        there(2),
        source(&here, sizeof here),
        target(&there, sizeof there) {
    b.connect(a.bind());
    while (!a.connected() || !b.connected()) move();
    view = source.view();
    remote = target.remote();
    // The first one asks what the key is worth.
    write();
    while (!b.wait_for_write(0, &note)) move();
  }
  void move() { a.process(), b.process(); }
  void write() { a.write(view, remote, true, 7); }
  void take() {
    if (!b.wait_for_write(0, &note)) std::abort();
  }

  lci::transport a, b;
  std::uint64_t here, there;
  lci::memory source, target;
  lci::memory_view view;
  lci::remote_buffer remote;
  lci::notification note;
};

void run() {
  ends e;
  // Both sides are awake: they have waited in vain, and nothing has sent them to sleep.
  for (int i = 0; i < 100; ++i) e.move();
  e.b.wait_for_write(0.05, &e.note);
  e.a.wait_for_write(0.05, &e.note);
  e.b.wait_for_write(0.05, &e.note);
  if (!lci::test::step_freeze_clock()) std::abort();
  for (int i = 0; i < WARM_UP; ++i) {
    e.write();
    e.take();
  }
  for (int i = 0; i < STEPPED; ++i) {
    step_begin(WRITE);
    e.write();
    step_end();
    step_begin(WAIT);
    e.take();
    step_end();
  }
  if (lci::test::has_alloc_counter()) {
    const lci::test::alloc_counter counter;
    for (int i = 0; i < WARM_UP; ++i) {
      e.write();
      e.take();
    }
    std::printf("heap calls of a write and a wait: %.2f\n",
                static_cast<double>(counter.calls()) / WARM_UP);
    // The transfer; a free counts as well.
    if (counter.calls() > std::uint64_t{WARM_UP} * 5 / 2) std::exit(1);
  }
  lci::test::step_freeze_clock(false);
}

std::uint64_t median(std::vector<std::uint64_t> all) {
  std::nth_element(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2),
                   all.end());
  return all[all.size() / 2];
}

// Prints one kind of section. False: it broke the budget.
bool judge(const std::vector<step_section>& all, section_id id, const char* name,
           std::uint64_t limit, std::uint64_t locked_limit) {
  std::vector<std::uint64_t> instructions, locked, calls;
  for (const step_section& one : all) {
    if (one.id != id) continue;
    instructions.push_back(one.instructions);
    locked.push_back(one.locked);
    calls.push_back(one.system_calls);
  }
  std::printf("%s: %llu instructions (at most %llu), %llu locked (%llu), %llu system calls\n", name,
              static_cast<unsigned long long>(median(instructions)),
              static_cast<unsigned long long>(limit),
              static_cast<unsigned long long>(median(locked)),
              static_cast<unsigned long long>(locked_limit),
              static_cast<unsigned long long>(median(calls)));
  return median(instructions) <= limit && median(locked) <= locked_limit && median(calls) == 0;
}

}  // namespace

int main() {
  std::string missing = lci::test::step_counter_missing();
  if (missing.empty()) lci::transport::supported(&missing);
  if (!missing.empty()) {
    std::printf("skipped: %s\n", missing.c_str());
    return 77;
  }
  const lci::test::step_report report = lci::test::count_steps(&run);
  if (!report.failure.empty()) {
    std::printf("%s\n", report.failure.c_str());
    return 1;
  }
  bool good = judge(report.sections, WRITE, "write with notification", 1850, 1);
  good &= judge(report.sections, WAIT, "wait for it", 1400, 4);
  return good ? 0 : 1;
}
