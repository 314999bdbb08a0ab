// An accelerator that only knows streams, and runs them one step at a time when told to. Threads:
// single.
#pragma once

#include <array>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>

#include "lci/errors.hpp"
#include "lci/proto/gpu/devices.hpp"
#include "tests/unit/proto/domains.hpp"

namespace lci::test {

class fake_streams final : public mem::accelerator {
 public:
  fake_streams() { now() = this; }
  ~fake_streams() override { now() = nullptr; }
  static fake_streams*& now() {
    static fake_streams* one = nullptr;
    return one;
  }

  void copy(mem::copy_job&) noexcept override {}
  std::size_t poll() noexcept override { return 0; }
  mem::share_place share(const void*, std::size_t, std::string&) override { return {}; }
  mem::mapped_memory map(const mem::peer_range&, int, std::string&) override { return {}; }
  void forget(int) noexcept override {}
  std::string pin(void*, std::size_t) override { return ""; }
  void unpin(void*) noexcept override {}

  bool is_captured(void* stream) override {
    may_fail();
    return captures.count(stream) != 0;
  }
  mem::stream_word& take_word() override {
    may_fail();
    words.push_back(std::make_unique<mem::stream_word>(0));
    taken.insert(words.back().get());
    return *words.back();
  }
  void put_word(mem::stream_word& word) noexcept override { taken.erase(&word); }
  void enqueue(void* stream, std::span<const mem::stream_step> steps) override {
    may_fail();
    auto& to = captures.count(stream) != 0 ? captures[stream] : queues[stream];
    to.insert(to.end(), steps.begin(), steps.end());
  }

  // Runs what the stream can do now.
  void run(void* stream) {
    while (step(stream)) {
    }
  }
  // One step of that; false: there is nothing that it can do.
  bool step(void* stream) {
    using kind = mem::stream_step::kind;
    auto& queue = queues[stream];
    if (queue.empty()) return false;
    const mem::stream_step& next = queue.front();
    if (next.what == kind::wait_until_equal && next.word->load() != next.value) return false;
    if (next.what == kind::write) next.word->store(next.value);
    queue.pop_front();
    return true;
  }
  bool is_idle(void* stream) { return queues[stream].empty(); }
  void begin_capture(void* stream) { captures[stream]; }
  std::deque<mem::stream_step> end_capture(void* stream) {
    auto graph = std::move(captures.at(stream));
    captures.erase(stream);
    return graph;
  }
  void launch(const std::deque<mem::stream_step>& graph, void* stream) {
    queues[stream].insert(queues[stream].end(), graph.begin(), graph.end());
  }

  int fail_at = 0;  // the n-th of the calls that can fail does; 0: none
  std::set<const mem::stream_word*> taken;

 private:
  void may_fail() {
    if (fail_at > 0 && --fail_at == 0) throw backend_error("fake: this call fails");
  }
  std::map<void*, std::deque<mem::stream_step>> queues, captures;
  std::deque<std::unique_ptr<mem::stream_word>> words;
};

// While it lives, the protocols find such an accelerator.
class with_fake_streams {
 public:
  with_fake_streams() { domains() = LIST; }
  ~with_fake_streams() { domains() = usual_domains(); }

 private:
  static mem::memory_domain domain(std::string_view name) {
    mem::memory_domain made{};
    made.name = name;
    return made;
  }
  static std::array<mem::memory_domain, 2> both() {
    std::array<mem::memory_domain, 2> all{domain("broken"), domain("fake")};
    all[0].probe = [] { return std::string("it is not here"); };
    all[1].probe = [] { return std::string(); };
    all[1].start = [](mem::arena&) -> std::unique_ptr<mem::accelerator> {
      return std::make_unique<fake_streams>();
    };
    return all;
  }
  static inline const std::array<mem::memory_domain, 2> LIST = both();
};

}  // namespace lci::test
