// Everything that registers itself somewhere, with each step of its constructor failing in turn:
// each allocation, each call of the bootstrap, and each call of the network's library. What failed
// is listed nowhere, and what was there before goes on. LCI_TEST_NETWORK names the network, "ibv"
// or "ofi", which is a fake one, and "+shm" puts shared memory beside it; else it is shared memory.
#include <gtest/gtest.h>

#include <cerrno>
#include <cstdlib>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "lci/boot/local.hpp"
#include "lci/errors.hpp"
#include "lci/runtime/device.hpp"
#include "lci/runtime/global.hpp"
#include "lci/runtime/job.hpp"
#include "lci/runtime/runtime.hpp"
#include "tests/support/failing_new/failing_new.hpp"
#include "tests/unit/runtime/fake_network.hpp"

namespace lci {
namespace {

// A bootstrap of one rank whose n-th call fails, as when a rank or the launcher is lost meanwhile.
class failing_bootstrap final : public boot::bootstrap {
 public:
  const char* name() const noexcept override { return "failing"; }
  int rank() const noexcept override { return 0; }
  int size() const noexcept override { return 1; }
  void put(const std::string& key, const std::string& value) override {
    step();
    names.push_back(key);
    real_.put(key, value);
  }
  void fence() override {
    step();
    real_.fence();
  }
  std::string get(int rank, const std::string& key) override {
    step();
    return real_.get(rank, key);
  }
  int fail_in = 0;                 // calls; 0: none fails
  std::vector<std::string> names;  // under which something was put, in this order

 private:
  void step() {
    if (fail_in != 0 && --fail_in == 0) throw backend_error("a rank is gone");
  }
  boot::local_bootstrap real_;
};

// The library as initialize() leaves it, over a bootstrap of the test's.
class constructors_test : public testing::Test {
 protected:
  void SetUp() override {
    if (!test::CAN_NEW_FAIL) GTEST_SKIP() << "this sanitizer has an operator new of its own";
  }
  constructors_test() {
    auto made = std::make_unique<failing_bootstrap>();
    boot_ = made.get();
    runtime::global_state& g = runtime::global();
    g.bootstrap = std::move(made);
    g.rank = 0;
    g.size = 1;
    g.initialized = 1;
    const std::string_view network = network_ != nullptr ? network_->name() : "";
    if (network == "ibv") g_default_attr.backend = attr_backend_t::ibv;
    if (network == "ofi") g_default_attr.backend = attr_backend_t::ofi;
    g_default_attr.shm_enable = network_ == nullptr || network_->has_shm();
    make_owner();
  }
  ~constructors_test() override {
    free_owner();
    runtime::finalize();
    if (network_ != nullptr) {
      EXPECT_EQ(network_->live(), 0u) << "objects of the network";
    }
    g_default_attr = before_;
  }
  void make_owner() {
    owner_ = base::make_live<runtime_impl_t>(runtime_attr_t(), "");
    owner_->default_device.p_impl->queues.progress();
    if (network_ != nullptr) {
      EXPECT_EQ(owner_->default_net_context.get_attr_backend(), g_default_attr.backend);
    }
  }
  device_impl_t* make_device(const device_attr_t& wanted = device_attr_t()) {
    return base::make_live<device_impl_t>(*owner_->default_net_context.p_impl,
                                          *owner_->default_packet_pool.p_impl, wanted);
  }
  void free_owner() {
    if (owner_ != nullptr) base::free_live(std::exchange(owner_, nullptr), "runtime");
  }
  device_impl_t& device() { return *owner_->default_device.p_impl; }

  // What is listed, by kind. Networks keep what they have made for a device's number, which a later
  // device gets, and what they made at the first registration: that is gone with the runtime.
  std::vector<std::size_t> census() {
    if (owner_ == nullptr) return {};
    std::size_t engines = 0, pools = 0;
    owner_->core.rcomps.for_each_engine([&](proto::match_target&) { ++engines; });
    owner_->core.arena.for_each<mem::packet_pool>([&](mem::packet_pool&) { ++pools; });
    return {owner_->net_contexts.size(),    owner_->packet_pools.size(),
            owner_->engines.size(),         owner_->devices.size(),
            owner_->regions.size(),         device().endpoints.size(),
            owner_->core.regions.live(),    engines,
            network_ != nullptr ? 0 : pools};
  }
  // make() and what it made is freed; each step fails once before. Answers how many steps it has.
  template <class T>
  int each_failure(const std::function<T*()>& make, const char* what) {
    const int by_memory = each_failure_of<T>(make, what, [](std::uint64_t n, auto&& run) {
      const test::fail_nth_new fail(n);
      run();
      return fail.fired();
    });
    const int by_others = each_failure_of<T>(make, what, [this](std::uint64_t n, auto&& run) {
      boot_->fail_in = static_cast<int>(n);
      run();
      return std::exchange(boot_->fail_in, 0) == 0;
    });
    int by_network = 0;
    for (const std::string& call : test::fake_network::CALLS) {
      if (network_ == nullptr) break;
      const std::string where = std::string(what) + ", " + call;
      by_network += each_failure_of<T>(make, where.c_str(), [&](std::uint64_t n, auto&& run) {
        return network_->fail(call, n, run);
      });
    }
    network_steps_ += by_network;
    RecordProperty(what, by_memory + by_others + by_network);
    return by_memory + by_others + by_network;
  }
  static net_context_attr_t network_as_by_default() {
    net_context_attr_t wanted;
    static_cast<net_context_settings_t&>(wanted) = g_default_attr;
    return wanted;
  }

  const std::unique_ptr<test::fake_network> network_ = test::fake_network::wanted();
  const global_attr_t before_ = g_default_attr;
  int network_steps_ = 0;  // calls of the network that have failed
  failing_bootstrap* boot_ = nullptr;
  runtime_impl_t* owner_ = nullptr;

 private:
  template <class T, class Fail>
  int each_failure_of(const std::function<T*()>& make, const char* what, Fail&& fail) {
    for (int n = 1;; ++n) {
      const std::vector<std::size_t> before = census();
      T* made = nullptr;
      bool has_thrown = false;
      const bool fired = fail(static_cast<std::uint64_t>(n), [&] {
        try {
          made = make();
        } catch (const std::bad_alloc&) {
          has_thrown = true;
        } catch (const backend_error&) {
          has_thrown = true;
        }
      });
      if (!fired) {
        EXPECT_FALSE(has_thrown);
        if (made != nullptr) base::free_live(made, what);
        return n - 1;
      }
      // Some go on without what they could not get, such as a line of the log.
      if (made != nullptr) base::free_live(made, what);
      EXPECT_EQ(has_thrown, made == nullptr);
      EXPECT_EQ(census(), before) << what << ", failure " << n << ": something stays listed";
      if (owner_ != nullptr) {
        device().queues.progress();
        EXPECT_TRUE(device().queues.is_quiet());
      }
    }
  }
};

TEST_F(constructors_test, endpoint__each_step_fails) {
  EXPECT_GE(each_failure<endpoint_impl_t>(
                [&] { return base::make_live<endpoint_impl_t>(device()); }, "endpoint"),
            2);
}

TEST_F(constructors_test, device__each_step_fails) {
  for (const bool with_progress_endpoint : {false, true}) {
    device_attr_t wanted;
    wanted.alloc_progress_endpoint = with_progress_endpoint;
    EXPECT_GE(each_failure<device_impl_t>([&] { return make_device(wanted); }, "device"), 5);
  }
}

// Freed devices leave their numbers to new ones, which asks the other ranks more.
TEST_F(constructors_test, device__its_number_is_given_again_after_a_failure) {
  device_impl_t* const first = make_device();
  const int number = first->number;
  boot_->fail_in = 1;
  EXPECT_THROW(make_device(), backend_error);
  boot_->fail_in = 0;
  device_impl_t* const second = make_device();
  EXPECT_EQ(second->number, number + 1);
  base::free_live(first, "device");
  base::free_live(second, "device");
}

TEST_F(constructors_test, device__and_endpoints_are_counted_apart) {
  const int devices = device().attr.uid, endpoints = device().endpoints.back()->attr.uid;
  device_attr_t wanted;
  wanted.alloc_progress_endpoint = true;
  device_impl_t* const first = make_device(wanted);
  boot_->fail_in = 1;
  EXPECT_THROW(make_device(wanted), backend_error) << "after its endpoints were made";
  boot_->fail_in = 0;
  device_impl_t* const second = make_device();
  EXPECT_EQ(first->attr.uid, devices + 1);
  EXPECT_EQ(second->attr.uid, devices + 2);
  EXPECT_EQ(first->endpoints.front()->attr.uid, endpoints + 1);
  EXPECT_EQ(first->endpoints.back()->attr.uid, endpoints + 2);
  EXPECT_EQ(second->endpoints.back()->attr.uid, endpoints + 3);
  base::free_live(first, "device");
  base::free_live(second, "device");
}

// The one that was met first: what is left of a device that could not be finished is freed again
// with its runtime.
TEST_F(constructors_test, device__the_runtime_ends_after_a_failure) {
  boot_->fail_in = 1;
  EXPECT_THROW(make_device(), backend_error);
  boot_->fail_in = 0;
  free_owner();
}

TEST_F(constructors_test, matching_engine__each_step_fails) {
  for (const auto type : {attr_matching_engine_type_t::map, attr_matching_engine_type_t::queue}) {
    matching_engine_attr_t wanted;
    wanted.matching_engine_type = type;
    int steps = 0;
    // Lists and tables grow now and then.
    for (int i = 0; i < 20; ++i) {
      steps += each_failure<matching_engine_impl_t>(
          [&] {
            auto* made = base::make_live<matching_engine_impl_t>(*owner_, wanted);
            forget(owner_->engines, made);  // as free_matching_engine() does
            return made;
          },
          "matching_engine");
      base::make_live<matching_engine_impl_t>(*owner_, wanted);  // freed with the runtime
    }
    EXPECT_GT(steps, 20);
  }
}

TEST_F(constructors_test, packet_pool__each_step_fails) {
  for (allocator_base_t* const from : {static_cast<allocator_base_t*>(nullptr),
                                       static_cast<allocator_base_t*>(&g_allocator_default)}) {
    EXPECT_GE(each_failure<packet_pool_impl_t>(
                  [&] {
                    auto* made =
                        base::make_live<packet_pool_impl_t>(*owner_, packet_pool_attr_t(), from);
                    forget(owner_->packet_pools, made);
                    return made;
                  },
                  "packet_pool"),
              2);
  }
}

TEST_F(constructors_test, memory_region__each_step_fails) {
  static char bytes[4096];
  std::vector<mr_impl_t*> others;
  // Lists and tables grow now and then: from the first region on.
  for (int i = 0; i < 70; ++i) {
    each_failure<mr_impl_t>(
        [&] {
          return base::make_live<mr_impl_t>(*owner_->default_net_context.p_impl, bytes,
                                            sizeof bytes);
        },
        "mr");
    others.push_back(
        base::make_live<mr_impl_t>(*owner_->default_net_context.p_impl, bytes, sizeof bytes));
  }
  for (mr_impl_t* one : others) base::free_live(one, "mr");
}

TEST_F(constructors_test, net_context__each_step_fails) {
  EXPECT_GE(each_failure<net_context_impl_t>(
                [&] {
                  auto* made =
                      base::make_live<net_context_impl_t>(*owner_, network_as_by_default());
                  forget(owner_->net_contexts, made);
                  return made;
                },
                "net_context"),
            5);
}

// Beside contexts that live, after one that was freed, and in two runtimes.
TEST_F(constructors_test, net_context__has_names_of_its_own_in_the_bootstrap) {
  const auto make_in = [](runtime_impl_t& runtime) {
    return base::make_live<net_context_impl_t>(runtime, network_as_by_default());
  };
  net_context_impl_t* const freed = make_in(*owner_);
  make_in(*owner_);  // freed with the runtime
  forget(owner_->net_contexts, freed);
  base::free_live(freed, "net_context");
  make_in(*owner_);
  auto* const other = base::make_live<runtime_impl_t>(runtime_attr_t(), "");
  make_in(*other);
  base::free_live(other, "runtime");
  const std::set<std::string> different(boot_->names.begin(), boot_->names.end());
  EXPECT_GE(different.size(), 6u);
  EXPECT_EQ(different.size(), boot_->names.size());
}

TEST_F(constructors_test, runtime__each_step_fails) {
  free_owner();
  EXPECT_GE(each_failure<runtime_impl_t>(
                [&] { return base::make_live<runtime_impl_t>(runtime_attr_t(), ""); }, "runtime"),
            20);
  if (network_ != nullptr) {
    EXPECT_GE(network_steps_, 5);
  }
}

}  // namespace
}  // namespace lci
