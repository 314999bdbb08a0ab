// Short puts into own memory of a GPU, by a fake one.
#include <gtest/gtest.h>

#include "lci/proxy/proxy_world.hpp"
#include "lci/proxy/raised_words.hpp"
#include "tests/unit/proto/fake_gpu.hpp"
#include "tests/unit/proxy/proxied_job.hpp"

namespace lci::proxy {
namespace {

using device::outcome;
using wqe::opcode;
using wqe::syndrome;

// There before the job, and after it.
struct with_gpu {
  with_gpu() { test::proxied_domains() = {&test::fake_domain(), 1}; }
  ~with_gpu() { test::proxied_domains() = {}; }
};

class world_deliveries : public testing::Test {
 protected:
  world_deliveries() {
    std::memset(memory_.bytes(), 0, memory_.size());
    mr_ = register_memory_x(memory_.at(), memory_.size()).runtime(job_.handle())();
    key_ = get_gpu_key(mr_).key;
    set({});
  }
  ~world_deliveries() override {
    EXPECT_TRUE(job_.step_until([this] { return !own_.is_in_use(); }));
    deregister_memory(&mr_);
  }
  void set(test::fake_gpu::settings how, bool delivers = true) {
    how.delivers = delivers;
    gpu().set(how);
  }
  test::fake_gpu& gpu() {
    return static_cast<test::fake_gpu&>(job_.runtime().shared.gpu.gpus.use(test::fake_domain()));
  }
  device::remote_place at(std::uint64_t offset) const {
    return {reinterpret_cast<std::uintptr_t>(memory_.at()) + offset, key_};
  }
  device::local_data bytes(std::uint32_t size) {
    piece_ = {bytes_, size, 0};
    return {&piece_, 1, size};
  }
  device::answer finish(device::answer a, proxy_world* w = nullptr) {
    job_.step_until([&] {
      if (a.what == outcome::posted) a = (w != nullptr ? *w : own_).poll();
      return a.what != outcome::posted;
    });
    return a;
  }
  device::answer put(std::uint32_t size, std::uint64_t to) {
    return finish(own_.put(opcode::rdma_write, bytes(size), at(to), 0, false));
  }
  std::uint64_t word(std::uint64_t offset) const {
    std::uint64_t out = 0;
    std::memcpy(&out, memory_.bytes() + offset, sizeof(out));
    return out;
  }

  with_gpu gpu_;
  test::fake_memory memory_{4096};
  std::byte bytes_[256] = {std::byte{1}, std::byte{2}, std::byte{3}};
  device::local_piece piece_{};
  test::proxied_job job_;
  mr_t mr_;
  std::uint32_t key_ = 0;
  open_receives receives_{nullptr, 0};
  std::atomic<bool> aborted_{false};
  proxy_world own_{job_.device(), 0, job_.side().all_keys, receives_, aborted_};
  proxy_world other_{job_.device(), 1, job_.side().all_keys, receives_, aborted_};
};

// What a GPU has of a world ends before the device does: nothing could wait for it later.
TEST_F(world_deliveries, free_device__waits_for_one_under_way) {
  device_t beside = alloc_device_x().runtime(job_.handle())();
  proxy_world world(*beside.p_impl, 0, job_.side().all_keys, receives_, aborted_);
  EXPECT_EQ(world.put(opcode::rdma_write, bytes(3), at(100), 0, false).what, outcome::posted);
  EXPECT_EQ(gpu().deliveries(), 1u);
  EXPECT_TRUE(world.is_in_use());
  free_device_x(&beside).runtime(job_.handle())();
  EXPECT_FALSE(world.is_in_use());
  EXPECT_EQ(memory_.bytes()[101], std::byte{2});
}

TEST_F(world_deliveries, free_device__waits_for_the_old_value_of_an_atomic_operation) {
  device_t beside = alloc_device_x().runtime(job_.handle())();
  proxy_world world(*beside.p_impl, 0, job_.side().all_keys, receives_, aborted_);
  memory_.bytes()[8] = std::byte{37};
  device::answer a = world.atomic(opcode::atomic_fa, {5, 0, 0, 0, 8}, at(8), memory_.at() + 64);
  for (int i = 0; i < 1000 && gpu().copies() == 0; ++i) {
    ASSERT_EQ(a.what, outcome::posted);
    beside.p_impl->queues.progress();
    a = world.poll();
  }
  EXPECT_EQ(gpu().copies(), 1u);
  EXPECT_TRUE(world.is_in_use());
  free_device_x(&beside).runtime(job_.handle())();
  EXPECT_FALSE(world.is_in_use());
  EXPECT_EQ(word(64), 37u);
}

TEST_F(world_deliveries, free_device__waits_for_words_that_tell_kernels) {
  device_t beside = alloc_device_x().runtime(job_.handle())();
  raised_words words(beside.p_impl->queues.gpu, 0, 1);
  words.raise(0, reinterpret_cast<std::uint32_t*>(memory_.at() + 32));
  EXPECT_TRUE(words.is_out());
  free_device_x(&beside).runtime(job_.handle())();
  EXPECT_FALSE(words.is_out());
  EXPECT_EQ(memory_.bytes()[32], std::byte{1});
}

TEST_F(world_deliveries, put__of_inline_bytes) {
  EXPECT_EQ(put(3, 100).what, outcome::done);
  EXPECT_EQ(gpu().deliveries(), 1u);
  EXPECT_EQ(memory_.bytes()[101], std::byte{2});
  EXPECT_EQ(put(8, 104).what, outcome::done);
  EXPECT_EQ(word(104), 0x030201u);
  EXPECT_EQ(put(220, 200).what, outcome::done);
  EXPECT_EQ(gpu().deliveries(), 3u);
  EXPECT_EQ(put(221, 200).what, outcome::done) << "more than a command carries";
  EXPECT_EQ(gpu().deliveries(), 3u);
  EXPECT_EQ(own_.flush().what == outcome::failed, false);
}

TEST_F(world_deliveries, put_signal__one_command_for_both) {
  EXPECT_EQ(finish(own_.put_signal(bytes(3), at(100), at(200), 4711)).what, outcome::done);
  EXPECT_EQ(gpu().deliveries(), 1u);
  EXPECT_EQ(memory_.bytes()[102], std::byte{3});
  EXPECT_EQ(word(200), 4711u);
}

TEST_F(world_deliveries, put_signal__no_way) {
  const auto expect_none = [&](device::answer a) { EXPECT_EQ(a.what, outcome::retry); };
  expect_none(other_.put_signal(bytes(3), at(0), at(8), 1));
  expect_none(own_.put_signal(bytes(3), at(0), at(4), 1));
  expect_none(own_.put_signal(bytes(3), at(4094), at(8), 1));
  expect_none(own_.put_signal(bytes(3), at(0), at(4096), 1));
  expect_none(own_.put_signal(bytes(3), {at(0).address, key_ + 1}, at(8), 1));
  expect_none(own_.put_signal(bytes(221), at(0), at(8), 1));
  set({}, false);
  expect_none(own_.put_signal(bytes(3), at(0), at(8), 1));
  aborted_.store(true);
  expect_none(own_.put_signal(bytes(3), at(0), at(8), 1));
  EXPECT_EQ(gpu().deliveries(), 0u);
  EXPECT_EQ(word(0), 0u);
}

// Host memory is the processor's.
TEST_F(world_deliveries, put_signal__host_memory) {
  std::uint64_t words[2] = {};
  mr_t mr = register_memory_x(words, sizeof(words)).runtime(job_.handle())();
  const device::remote_place there{reinterpret_cast<std::uintptr_t>(words), get_gpu_key(mr).key};
  EXPECT_EQ(own_.put_signal(bytes(3), at(0), there, 1).what, outcome::retry);
  EXPECT_EQ(own_.put_signal(bytes(3), there, at(0), 1).what, outcome::retry);
  deregister_memory(&mr);
}

// The resident kernel was not there yet. Its bytes are, so the next one need not wait for a flush.
TEST_F(world_deliveries, put_signal__behind_a_put_that_went_another_way) {
  set({}, false);
  own_.expect_completion(false);
  EXPECT_EQ(put(3, 100).what, outcome::done);
  EXPECT_EQ(memory_.bytes()[101], std::byte{2});
  set({}, true);
  EXPECT_EQ(finish(own_.put_signal(bytes(3), at(0), at(8), 1)).what, outcome::done);
  EXPECT_EQ(put(3, 300).what, outcome::done);
  EXPECT_EQ(gpu().deliveries(), 2u);
}

TEST_F(world_deliveries, poll__the_gpu_fails) {
  test::fake_gpu::settings how;
  how.fails_deliveries = true;
  set(how);
  const device::answer a = put(3, 100);
  EXPECT_EQ(a.what, outcome::failed);
  EXPECT_EQ(a.why, syndrome::remote_operation);
  EXPECT_NE(own_.reason().find("GPU"), std::string::npos);
}

TEST_F(world_deliveries, poll__aborted_under_way) {
  const device::answer a = own_.put_signal(bytes(3), at(0), at(8), 1);
  ASSERT_EQ(a.what, outcome::posted);
  EXPECT_TRUE(own_.is_in_use());
  aborted_.store(true);
  EXPECT_EQ(own_.poll().why, syndrome::flushed);
}

// ---- beside each other ----

TEST_F(world_deliveries, put_beside__all_under_way_together) {
  const std::uint32_t most = own_.most_beside();
  EXPECT_EQ(most, proxy_world::MOST_OWN);
  EXPECT_GE(most, 16u) << "a block of the kernel takes 8 at a look";
  for (std::uint32_t i = 0; i < most; ++i) {
    bytes_[0] = static_cast<std::byte>(i + 1);
    EXPECT_EQ(own_.put_beside(i, bytes(i % 2 == 0 ? 8 : 60), at(i * 64)).what, outcome::posted);
    bytes_[0] = std::byte{0xff};  // it was taken
  }
  EXPECT_TRUE(own_.is_in_use());
  EXPECT_EQ(gpu().deliveries(), most);
  for (std::uint32_t i = 0; i < most; ++i) {
    device::answer a{outcome::posted, syndrome::none};
    EXPECT_TRUE(job_.step_until([&] { return (a = own_.poll_beside(i)).what != outcome::posted; }));
    EXPECT_EQ(a.what, outcome::done);
    EXPECT_EQ(memory_.bytes()[i * 64], static_cast<std::byte>(i + 1));
  }
  EXPECT_FALSE(own_.is_in_use());
  EXPECT_EQ(gpu().deliveries_together(), most);
}

TEST_F(world_deliveries, put_beside__what_goes_alone) {
  const auto expect_alone = [&](device::answer a) { EXPECT_EQ(a.what, outcome::retry); };
  expect_alone(own_.put_beside(0, bytes(221), at(0)));
  expect_alone(own_.put_beside(0, bytes(8), at(4092)));
  expect_alone(own_.put_beside(0, bytes(8), {at(0).address, key_ + 1}));
  expect_alone(own_.put_beside(0, bytes(8), {at(0).address, 0}));
  piece_ = {memory_.at(), 8, key_};
  expect_alone(own_.put_beside(0, {&piece_, 1, 8}, at(8)));
  expect_alone(own_.get_beside(0, at(0), {&piece_, 1, 8}));
  set({}, false);
  expect_alone(own_.put_beside(0, bytes(8), at(0)));
  set({});
  aborted_.store(true);
  expect_alone(own_.put_beside(0, bytes(8), at(0)));
  EXPECT_FALSE(own_.is_in_use());
  EXPECT_EQ(gpu().deliveries(), 0u);
}

TEST_F(world_deliveries, put_beside__host_memory_at_once) {
  std::uint64_t words[2] = {};
  mr_t mr = register_memory_x(words, sizeof(words)).runtime(job_.handle())();
  const auto to = [&, key = get_gpu_key(mr).key](std::uint64_t offset) {
    return device::remote_place{reinterpret_cast<std::uintptr_t>(words) + offset, key};
  };
  EXPECT_EQ(own_.put_beside(0, bytes(8), to(8)).what, outcome::done);
  EXPECT_EQ(words[1], 0x030201u);
  EXPECT_EQ(own_.put_beside(0, bytes(8), to(12)).why, syndrome::remote_access);
  piece_ = {reinterpret_cast<std::byte*>(words), 8, 0};
  EXPECT_EQ(own_.get_beside(0, to(8), {&piece_, 1, 8}).what, outcome::done);
  EXPECT_EQ(words[0], 0x030201u);
  EXPECT_EQ(own_.get_beside(0, to(12), {&piece_, 1, 8}).why, syndrome::remote_access);
  piece_ = {memory_.at(), 8, key_};
  EXPECT_EQ(own_.put_beside(0, {&piece_, 1, 8}, to(0)).what, outcome::retry) << "a GPU's source";
  EXPECT_EQ(own_.get_beside(0, to(0), {&piece_, 1, 8}).what, outcome::retry);
  EXPECT_EQ(gpu().deliveries(), 0u);
  deregister_memory(&mr);
}

TEST_F(world_deliveries, poll_beside__the_gpu_fails) {
  test::fake_gpu::settings how;
  how.fails_deliveries = true;
  set(how);
  ASSERT_EQ(own_.put_beside(3, bytes(8), at(0)).what, outcome::posted);
  device::answer a{outcome::posted, syndrome::none};
  job_.step_until([&] { return (a = own_.poll_beside(3)).what != outcome::posted; });
  EXPECT_EQ(a.why, syndrome::remote_operation);
  EXPECT_NE(own_.reason().find("GPU"), std::string::npos);
}

TEST_F(world_deliveries, poll_beside__aborted_under_way) {
  ASSERT_EQ(own_.put_beside(0, bytes(8), at(0)).what, outcome::posted);
  aborted_.store(true);
  EXPECT_EQ(own_.poll_beside(0).why, syndrome::flushed);
  EXPECT_TRUE(own_.is_in_use()) << "the accelerator has it yet";
}

// Through a whole queue: threads post as kernels do.
class values_of_threads : public world_deliveries {
 protected:
  static constexpr std::uint64_t VALUES = 64, SIGNAL = 2048, ROUNDS = 20;
  gpu::place_t place(std::uint64_t offset) {
    gpu::key_t key = get_gpu_key(mr_);
    key.mapped = 0;
    return {key, offset};
  }
  // So that all of a round are told of before the first one goes.
  void post_round(gpu::endpoint_t ep, std::uint64_t round) {
    for (std::uint64_t i = 0; i < VALUES; ++i)
      ASSERT_EQ(gpu::put_value(ep, 0, place(8 * i), round), gpu::status::ok);
    ASSERT_EQ(gpu::signal(ep, 0, place(SIGNAL), round), gpu::status::ok);
  }
  gpu::status run_rounds(std::uint32_t depth) {
    gpu::endpoint_t ep = job_.endpoint(depth);
    gpu::status said = gpu::status::ok;
    for (std::uint64_t round = 1; round <= ROUNDS && said == gpu::status::ok; ++round) {
      gpu().before_delivery = [&](const mem::delivery_job& one) {
        if (reinterpret_cast<std::byte*>(one.word) != memory_.at() + SIGNAL) return;
        ++signals_;
        // The last one may come with its signal.
        for (std::uint64_t i = 0; i < VALUES; ++i)
          early_ += word(8 * i) != round && one.to != memory_.at() + 8 * i;
      };
      post_round(ep, round);
      said = job_.run([&] { return gpu::quiet(ep, 0); });
      EXPECT_EQ(word(SIGNAL), round);
      for (std::uint64_t i = 0; i < VALUES; ++i) EXPECT_EQ(word(8 * i), round);
    }
    free_gpu_endpoint(&ep);
    return said;
  }
  std::uint64_t signals_ = 0, early_ = 0;
};

TEST_F(values_of_threads, beside_each_other_and_the_signal_behind_them) {
  EXPECT_EQ(run_rounds(1024), gpu::status::ok);
  EXPECT_EQ(gpu().deliveries_together(), proxy_world::MOST_OWN);
  EXPECT_EQ(signals_, ROUNDS);
  EXPECT_EQ(early_, 0u);
}

// A kernel that takes only a few, and now and then none.
TEST_F(values_of_threads, more_than_the_kernel_takes) {
  for (const std::size_t most : {std::size_t{3}, std::size_t{1}}) {
    test::fake_gpu::settings how;
    how.most_deliveries = most;
    set(how);
    EXPECT_EQ(run_rounds(1024), gpu::status::ok);
    EXPECT_LE(gpu().deliveries_together(), 3u);
  }
  EXPECT_EQ(early_, 0u);
}

TEST_F(values_of_threads, a_wrong_key_ends_those_behind_it) {
  gpu::endpoint_t ep = job_.endpoint(256);
  gpu::place_t wrong = place(0);
  wrong.key.length = gpu::UNKNOWN_LENGTH;
  wrong.offset = 4096;
  for (std::uint64_t i = 0; i < 10; ++i)
    ASSERT_EQ(gpu::put_value(ep, 0, place(8 * i), std::uint64_t{1}), gpu::status::ok);
  ASSERT_EQ(gpu::put_value(ep, 0, wrong, std::uint64_t{1}), gpu::status::ok);
  ASSERT_EQ(gpu::signal(ep, 0, place(SIGNAL), 1), gpu::status::ok);
  EXPECT_EQ(job_.run([&] { return gpu::quiet(ep, 0); }), gpu::status::failed);
  EXPECT_EQ(gpu::syndrome_of(ep, 0), syndrome::remote_access);
  for (std::uint64_t i = 0; i < 10; ++i) EXPECT_EQ(word(8 * i), 1u);
  EXPECT_EQ(word(SIGNAL), 0u);
  EXPECT_EQ(job_.texts<gpu_request_error>().size(), 1u);
  free_gpu_endpoint(&ep);
}

TEST_F(values_of_threads, abort_ends_those_under_way) {
  gpu::endpoint_t ep = job_.endpoint(256);
  post_round(ep, 1);
  job_.device().queues.progress();
  abort_gpu_endpoint(ep);
  EXPECT_EQ(job_.run([&] { return gpu::quiet(ep, 0); }), gpu::status::aborted);
  free_gpu_endpoint(&ep);
}

}  // namespace
}  // namespace lci::proxy
