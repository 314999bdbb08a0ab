// Short puts into own memory of a GPU, by a fake one.
#include <gtest/gtest.h>

#include "lci/proxy/proxy_world.hpp"
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
  open_receives receives_{nullptr, 0, job_.runtime().core};
  std::atomic<bool> aborted_{false};
  proxy_world own_{job_.device(), 0, job_.side().all_keys, receives_, aborted_};
  proxy_world other_{job_.device(), 1, job_.side().all_keys, receives_, aborted_};
};

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

}  // namespace
}  // namespace lci::proxy
