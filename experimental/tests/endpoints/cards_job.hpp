// A job of several ranks in one process, on the stand-ins for libibverbs and libmlx5: each rank is
// a whole runtime in a thread of its own. Callers: tests of endpoints over cards. Threads: the
// test's, which starts those of the ranks. Always true: a rank that has done its part of a step
// makes progress until all have, so none waits for a rank that is silent.
#pragma once

#include <atomic>
#include <condition_variable>
#include <exception>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "experimental/tests/unit/ibv/gpu_tiers_world.hpp"
#include "lci.hpp"
#include "lci/base/undo.hpp"
#include "lci/device.cuh"
#include "lci/gpu.hpp"
#include "lci/runtime/device.hpp"
#include "lci/runtime/global.hpp"
#include "lci/runtime/runtime.hpp"

namespace lci::test {

// What the ranks of a job say to each other while they open networks.
class board {
 public:
  explicit board(int ranks) : ranks_(ranks) {}
  void put(int rank, const std::string& key, const std::string& value) {
    const std::lock_guard lock(mutex_);
    said_[{rank, key}] = value;
  }
  std::string get(int rank, const std::string& key) {
    const std::lock_guard lock(mutex_);
    return said_.at({rank, key});
  }
  void fence() {
    std::unique_lock lock(mutex_);
    const int round = round_;
    if (++here_ == ranks_) {
      here_ = 0;
      ++round_;
      all_here_.notify_all();
    }
    all_here_.wait(lock, [&] { return round != round_; });
  }

 private:
  const int ranks_;
  std::mutex mutex_;
  std::condition_variable all_here_;
  int here_ = 0, round_ = 0;
  std::map<std::pair<int, std::string>, std::string> said_;
};

class board_bootstrap final : public boot::bootstrap {
 public:
  board_bootstrap(board& on, int rank, int size) : on_(on), rank_(rank), size_(size) {}
  const char* name() const noexcept override { return "board"; }
  int rank() const noexcept override { return rank_; }
  int size() const noexcept override { return size_; }
  void put(const std::string& key, const std::string& value) override {
    on_.put(rank_, key, value);
  }
  void fence() override { on_.fence(); }
  std::string get(int rank, const std::string& key) override { return on_.get(rank, key); }

 private:
  board& on_;
  const int rank_, size_;
};

class cards_job {
 public:
  static constexpr std::size_t SIZE = 8192;

  struct member {
    std::unique_ptr<boot::bootstrap> boot;
    std::mutex boot_lock;
    global_attr_t defaults;
    runtime::made_so_far made;
    runtime_impl_t* owner = nullptr;
    device_t device;
    alignas(4096) unsigned char memory[SIZE] = {};
    mr_t mr;
    rmr_t rmr;
    gpu::endpoint_t ep;
    std::vector<gpu_request_error> thrown;
    std::exception_ptr problem;  // of the last step
    void progress() {
      try {
        progress_x().device(device)();
      } catch (const gpu_request_error& error) {
        thrown.push_back(error);
      } catch (const peer_failure_error&) {  // tests look for what it ends
      }
    }
    runtime_t runtime() const { return runtime_t(owner); }
  };

  explicit cards_job(int ranks) : board_(ranks) {
    for (int i = 0; i < ranks; ++i) members_.push_back(std::make_unique<member>());
    std::vector<std::thread> all;
    for (int i = 0; i < ranks; ++i) all.emplace_back([this, i] { open(i); });
    for (std::thread& one : all) one.join();
  }
  ~cards_job() {
    each([](member& m, int) {
      if (!m.ep.is_empty()) free_gpu_endpoint(&m.ep);
    });
    each([](member& m, int) { deregister_memory(&m.mr); });
    std::vector<std::thread> all;
    for (const std::unique_ptr<member>& one : members_)
      all.emplace_back([&one] {
        runtime::global().runtimes.remove(*one->owner);
        one->owner->end_extension();
        base::free_live(one->owner, "runtime");
      });
    for (std::thread& one : all) one.join();
  }
  int size() const { return static_cast<int>(members_.size()); }
  member& at(int rank) { return *members_[static_cast<std::size_t>(rank)]; }

  // All ranks call it at the same time; what a rank throws is its `problem`.
  void each(const std::function<void(member& mine, int rank)>& step) {
    std::atomic<int> left{size()};
    std::vector<std::thread> all;
    for (int i = 0; i < size(); ++i)
      all.emplace_back([&, i] {
        member& mine = at(i);
        mine.problem = nullptr;
        try {
          step(mine, i);
        } catch (...) {
          mine.problem = std::current_exception();
        }
        left.fetch_sub(1);
        while (left.load() != 0) {
          mine.progress();
          std::this_thread::yield();
        }
      });
    for (std::thread& one : all) one.join();
  }
  void make_endpoints(attr_gpu_tier_t tier) {
    each([&](member& m, int) { m.ep = make_endpoint(m, tier); });
    for (int i = 0; i < size(); ++i) EXPECT_EQ(why(i), "");
  }
  static gpu::endpoint_t make_endpoint(member& m, attr_gpu_tier_t tier) {
    return alloc_gpu_endpoint_x(m.device)
        .gpu(gpu::NO_GPU)
        .gpu_tier(tier)
        .gpu_proxy(attr_gpu_proxy_t::progress)
        .depth(64)
        .runtime(m.runtime())();
  }
  // What that rank has thrown in the last step.
  std::string why(int rank) {
    try {
      if (at(rank).problem != nullptr) std::rethrow_exception(at(rank).problem);
    } catch (const std::exception& error) {
      return error.what();
    }
    return "";
  }
  // The memory of `rank` as rank `me` names it in requests.
  gpu::key_t key_at(int me, int rank) {
    gpu::key_t key = rank == me ? get_gpu_key_x(at(me).mr).endpoint(at(me).ep)()
                                : get_gpu_key_x(at(rank).rmr)
                                      .endpoint(at(me).ep)
                                      .rank(rank)
                                      .runtime(at(me).runtime())();
    key.mapped = 0;
    return key;
  }

 private:
  void open(int rank) {
    member& m = at(rank);
    m.boot = std::make_unique<board_bootstrap>(board_, rank, size());
    m.defaults = g_default_attr;
    runtime::job_member who;
    who.rank = rank;
    who.size = who.ranks_here = size();
    who.bootstrap = &m.boot;
    who.bootstrap_lock = &m.boot_lock;
    who.defaults = &m.defaults;
    who.made = &m.made;
    who.most_reserve = std::size_t{1} << 30;
    who.is_job = false;
    runtime_attr_t attr;
    static_cast<runtime_settings_t&>(attr) = m.defaults;
    m.owner = base::make_live<runtime_impl_t>(attr, who);
    net_context_attr_t network;
    static_cast<net_context_settings_t&>(network) = m.defaults;
    m.owner->complete(*base::make_live<net_context_impl_t>(*m.owner, network));
    runtime::global().runtimes.add(*m.owner);
    m.device = m.owner->default_device;
    m.mr = register_memory_x(m.memory, SIZE).runtime(m.runtime())();
    m.rmr = get_rmr_x(m.mr)();
  }

  board board_;
  std::vector<std::unique_ptr<member>> members_;
};

}  // namespace lci::test
