// What a test of this folder stands on: two endpoints of this rank, memory of all ranks, a queue of
// kernels, and kernels that are driven until they end. Threads: single, but for the kernels.
// Always true: waits of kernels have a limit; the host waits so long for them, then aborts the
// endpoints, and ends the program if that is in vain.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <exception>
#include <functional>
#include <string>
#include <tuple>
#include <vector>

#include "lci/gpu.hpp"
#include "tests/accelerator/product/runner.hpp"
#include "tests/interface/world.hpp"

namespace product_test {

using interface_test::barrier;
using interface_test::world;
using lci::gpu::status;
using product::kind;

// Zeroed memory of kernels, registered, and the keys of all ranks. Collective.
class shared_memory {
 public:
  shared_memory()
      : at_(static_cast<unsigned char*>(runner::get().allocate(product::MEMORY))),
        keys_(static_cast<std::size_t>(world().n)) {
    mr_ = lci::register_memory_x(at_, product::MEMORY).device(world().device)();
    const lci::rmr_t mine = lci::get_rmr(mr_);
    lci::allgather_x(&mine, keys_.data(), sizeof mine).device(world().device)();
  }
  ~shared_memory() {
    barrier();
    lci::deregister_memory(&mr_);
    if (!is_kept_) runner::get().free(at_, product::MEMORY);
  }
  shared_memory(const shared_memory&) = delete;
  shared_memory& operator=(const shared_memory&) = delete;
  unsigned char* at() const { return at_; }
  lci::mr_t mr() const { return mr_; }
  // Until the process ends: a long message that no receive has met is read when one does, which may
  // be a receive of a later test.
  void keep() { is_kept_ = true; }
  lci::rmr_t rmr(int rank) const { return keys_[static_cast<std::size_t>(rank)]; }
  template <class T>
  std::vector<T> read(std::uint64_t offset, std::size_t count) const {
    std::vector<T> values(count);
    const std::vector<std::byte> bytes = runner::get().read(at_ + offset, count * sizeof(T));
    std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  }

 private:
  unsigned char* at_;
  std::vector<lci::rmr_t> keys_;
  lci::mr_t mr_;
  bool is_kept_ = false;
};

class ends : public testing::TestWithParam<std::tuple<lci::attr_gpu_proxy_t, scope>> {
 protected:
  static constexpr std::uint64_t LIMIT_MS = 20'000;

  ends() : ends(LIMIT_MS) {}
  explicit ends(std::uint64_t limit_ms) {
    for (lci::gpu::endpoint_t* one : {&task_.first, &task_.second})
      *one = lci::alloc_gpu_endpoint_x(world().device)
                 .gpu(runner::get().gpu())
                 .gpu_proxy(proxy())
                 .gpu_tier(lci::attr_gpu_tier_t::proxy)
                 .depth(64)
                 .wait_limit_ms(limit_ms)();
    task_.queue = lci::alloc_gpu_queue_x(task_.second).capacity(8).message_size(256)();
    task_.to_queue = lci::register_rcomp(lci::get_gpu_queue_comp(task_.queue));
    task_.me = world().rank;
    task_.to = world().next();
    task_.of = world().previous();
    task_.memory = memory_.at();
    task_.own = lci::get_gpu_key_x(memory_.mr()).endpoint(task_.first)();
    task_.plain = lci::get_gpu_key(memory_.mr());
    task_.there = lci::get_gpu_key(memory_.rmr(task_.to));
    task_.faults = static_cast<product::fault*>(runner::get().pinned(FAULTS));
    std::vector<lci::gpu::place_t> words;
    for (int rank = 0; rank < world().n; ++rank)
      words.push_back({lci::get_gpu_key(memory_.rmr(rank)), product::BARRIER});
    words_size_ = words.size() * sizeof(words[0]);
    words_ = runner::get().allocate(words_size_);
    runner::get().write(words_, words.data(), words_size_);
    task_.barrier_words = static_cast<const lci::gpu::place_t*>(words_);
    barrier();
  }
  ~ends() override {
    barrier();
    free_queue();
    for (lci::gpu::endpoint_t* one : {&task_.first, &task_.second})
      if (!one->is_empty()) lci::free_gpu_endpoint(one);
    runner::get().free(words_, words_size_);
    runner::get().free_pinned(task_.faults, FAULTS);
  }

  lci::attr_gpu_proxy_t proxy() const { return std::get<0>(GetParam()); }
  std::uint64_t callers() const {
    return runner::get().callers(std::get<1>(GetParam()), only_one_);
  }
  // The next rank's memory as kernels reach it, where they do; else by requests, with its length.
  void map_there() {
    task_.there = lci::get_gpu_key_x(memory_.rmr(task_.to)).endpoint(task_.first).rank(task_.to)();
    if (task_.to == task_.me) {
      ASSERT_NE(task_.there.mapped, 0u);
    }
  }

  // Until the kernels have ended; each member has met nothing wrong.
  void run(kind what) {
    start(what);
    finish();
  }
  void start(kind what) {
    task_.what = what;
    members_ = runner::get().members(std::get<1>(GetParam()), only_one_);
    ASSERT_LE(members_ * sizeof(product::fault), FAULTS);
    for (std::uint64_t i = 0; i < members_; ++i) task_.faults[i] = {product::NOT_RUN, status::ok};
    runner::get().start(std::get<1>(GetParam()), only_one_, task_);
  }
  void finish() {
    drive([] { return runner::get().is_over(); });
    std::string wrong;
    for (std::uint64_t i = 0; i < members_ && wrong.size() < 500; ++i)
      if (const product::fault& f = task_.faults[i]; f.line != 0)
        wrong += "member " + std::to_string(i) + ", line " + std::to_string(f.line) + ": " +
                 lci::gpu::text_of(f.said) + "\n";
    EXPECT_EQ(wrong, "") << "lines of tests/support/device_code/product_calls.hpp or _messages.hpp";
  }
  // Progress until `is_over`; what progress throws is kept.
  void drive(const std::function<bool()>& is_over) {
    using clock = std::chrono::steady_clock;
    const clock::time_point begin = clock::now();
    for (bool was_aborted = false; !is_over();) {
      try {
        for (int i = 0; i < 20; ++i) interface_test::progress();
      } catch (const lci::truncation_error&) {
        ++truncations_;
      } catch (const std::exception& error) {
        errors_.push_back(error.what());
      }
      const auto since = clock::now() - begin;
      if (!was_aborted && since > std::chrono::seconds(40)) {
        was_aborted = true;
        ADD_FAILURE() << "not over after 40 s: aborted";
        memory_.keep();
        abort_ends();
      }
      if (since > std::chrono::seconds(60)) {
        std::fprintf(stderr, "rank %d: aborted kernels do not end\n", world().rank);
        std::abort();
      }
    }
    for (const std::string& error : errors_) ADD_FAILURE() << "progress: " << error;
    errors_.clear();
  }
  void free_queue() {
    if (task_.queue.is_empty()) return;
    lci::deregister_rcomp(task_.to_queue);
    lci::free_gpu_queue(&task_.queue);
  }
  void abort_ends() {
    for (lci::gpu::endpoint_t one : {task_.first, task_.second})
      if (!one.is_empty()) lci::abort_gpu_endpoint(one);
  }

  static constexpr std::size_t FAULTS = 4096;
  shared_memory memory_;
  product::task task_;
  bool only_one_ = false;  // caller
  std::uint64_t members_ = 0;
  std::uint64_t truncations_ = 0;
  std::vector<std::string> errors_;
  void* words_ = nullptr;
  std::size_t words_size_ = 0;
};

inline std::string name_of_param(const testing::TestParamInfo<ends::ParamType>& info) {
  const bool is_thread = std::get<0>(info.param) == lci::attr_gpu_proxy_t::thread;
  return std::string(is_thread ? "proxy_thread" : "progress") + "_and_" +
         name_of(std::get<1>(info.param));
}
inline auto each_way() {
  return testing::Combine(
      testing::Values(lci::attr_gpu_proxy_t::progress, lci::attr_gpu_proxy_t::thread),
      testing::Values(scope::thread, scope::warp, scope::block));
}

}  // namespace product_test
