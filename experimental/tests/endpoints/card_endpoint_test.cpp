// Endpoints of a whole runtime over tiers T0 to T2, on the stand-ins for libibverbs and libmlx5:
// what threads post by the calls of kernels is in the card's ring, record and register, or in its
// raw calls, with the card's own keys; what the card answers reaches the thread and the host.
#include <gtest/gtest.h>

#include <cstring>
#include <thread>

#include "experimental/tests/unit/ibv/gpu_tiers_world.hpp"
#include "lci.hpp"
#include "lci/device.cuh"
#include "lci/gpu.hpp"

namespace lci::ibv {
namespace {

using gpu::status;

class card_endpoint : public testing::Test {
 protected:
  card_endpoint() {
    card().reset();
    maker().reset();
    global_initialize();
    g_default_attr.backend = attr_backend_t::ibv;
    g_default_attr.shm_enable = false;
    runtime_ = alloc_runtime();
    device_ = get_default_device_x().runtime(runtime_)();
    mr_ = register_memory_x(memory_, sizeof(memory_)).runtime(runtime_)();
  }
  ~card_endpoint() override {
    if (!ep_.is_empty()) free_gpu_endpoint(&ep_);
    EXPECT_TRUE(maker().queues().empty()) << "the queue has outlived its endpoint";
    deregister_memory(&mr_);
    free_runtime(&runtime_);
    global_finalize();
    g_default_attr = before_;
    EXPECT_EQ(card().live().all(), 0u);
  }
  void make(attr_gpu_tier_t tier, attr_gpu_proxy_t proxy = attr_gpu_proxy_t::off) {
    ep_ = alloc_gpu_endpoint_x(device_)
              .gpu(gpu::NO_GPU)
              .gpu_tier(tier)
              .gpu_proxy(proxy)
              .depth(64)
              .runtime(runtime_)();
    key_ = get_gpu_key_x(mr_).endpoint(ep_)();
    key_.mapped = 0;  // so that it takes a request
  }
  std::string refusal(attr_gpu_tier_t tier) {
    try {
      make(tier, attr_gpu_proxy_t::progress);
    } catch (const backend_error& error) {
      return error.what();
    }
    return "it was made";
  }
  static test::fake_direct_queue seen() {
    const auto all = maker().queues();
    EXPECT_EQ(all.size(), 1u);
    return all.at(0);
  }
  // From the begin of the memory to its middle.
  status put(std::uint32_t size) {
    return gpu::put(ep_, 0, {key_, sizeof(memory_) / 2}, {key_, 0}, size);
  }
  // The bytes of that put as the first request of a queue.
  std::vector<unsigned char> bytes_of_put(std::uint32_t size, std::uint32_t qpn) const {
    alignas(64) unsigned char ring[1024] = {};
    const wqe::sge from{key_.base, size, key_.key};
    wqe::send_request r;
    r.op = wqe::opcode::rdma_write;
    r.signaled = false;
    r.entries = &from;
    r.entry_count = 1;
    r.raddr = key_.base + sizeof(memory_) / 2;
    r.rkey = key_.key;
    r.qpn = qpn;
    wqe::written_wqe written;
    EXPECT_EQ(wqe::write_send_wqe({ring, 16}, 0, r, {}, &written), wqe::status::ok);
    return {ring, ring + written.octowords * wqe::OCTOWORD_SIZE};
  }
  void progress() { progress_x().device(device_)(); }
  // A thread calls, the card carries out, the host makes progress; what that throws is kept.
  template <class Call>
  status run(stand_in_card& a_card, Call&& call) {
    std::atomic<bool> is_over{false};
    status said = status::ok;
    std::thread kernel([&] {
      said = call();
      is_over.store(true);
    });
    const auto round = [&] {
      a_card.progress();
      try {
        progress();
      } catch (const gpu_request_error& error) {
        thrown_.push_back(error);
      }
    };
    while (!is_over.load()) round();
    for (int i = 0; i < 10; ++i) round();
    kernel.join();
    return said;
  }
  // A call for the queue beside the card's, with a key that the host does not know: the error is
  // that queue's.
  template <class Call>
  void expect_error_beside(stand_in_card& a_card, Call&& call, std::uint8_t syndrome) {
    gpu::key_t wrong = key_;
    wrong.message_key = 0x777;
    EXPECT_EQ(run(a_card, [&] { return call(wrong); }), status::failed);
    ASSERT_EQ(thrown_.size(), 1u);
    EXPECT_EQ(thrown_[0].syndrome(), syndrome);
  }

  alignas(4096) unsigned char memory_[8192] = {};
  const global_attr_t before_ = g_default_attr;
  runtime_t runtime_;
  device_t device_;
  mr_t mr_;
  gpu::endpoint_t ep_;
  gpu::key_t key_;
  std::vector<gpu_request_error> thrown_;
};

TEST_F(card_endpoint, gpu_direct__ring_record_and_register) {
  make(attr_gpu_tier_t::gpu_direct);
  const auto q = seen();
  EXPECT_TRUE(q.is_connected);
  EXPECT_NE(key_.of_card, 0);
  memory_[0] = 42;
  ASSERT_EQ(put(300), status::ok);
  const auto wanted = bytes_of_put(300, q.qpn);
  EXPECT_EQ(std::memcmp(q.ring, wanted.data(), wanted.size()), 0);
  EXPECT_EQ(q.record[wqe::SEND_RECORD], wqe::work_record(1));
  EXPECT_EQ(std::memcmp(q.target, wanted.data(), 8), 0) << "the register has the first 8 bytes";
  // The keys are the card's, in its byte order.
  std::uint32_t rkey = 0, lkey = 0;
  std::memcpy(&rkey, wanted.data() + 24, 4);
  std::memcpy(&lkey, wanted.data() + 36, 4);
  EXPECT_EQ(wqe::be32(rkey), key_.key);
  EXPECT_EQ(wqe::be32(lkey), key_.key);
  stand_in_card a_card(q);
  EXPECT_EQ(run(a_card, [&] { return gpu::quiet(ep_); }), status::ok);
  EXPECT_EQ(memory_[4096], 42);
  EXPECT_TRUE(thrown_.empty());
}

TEST_F(card_endpoint, cpu_rings__the_host_tells_the_card) {
  make(attr_gpu_tier_t::cpu_rings);
  const auto q = seen();
  ASSERT_EQ(put(300), status::ok);
  const auto wanted = bytes_of_put(300, q.qpn);
  EXPECT_EQ(std::memcmp(q.ring, wanted.data(), wanted.size()), 0);
  EXPECT_EQ(q.record[wqe::SEND_RECORD], 0u) << "nobody has rung";
  progress();
  EXPECT_EQ(q.record[wqe::SEND_RECORD], wqe::work_record(1));
  EXPECT_EQ(std::memcmp(q.target, wanted.data(), 8), 0);
  stand_in_card a_card(q);
  EXPECT_EQ(run(a_card, [&] { return gpu::quiet(ep_); }), status::ok);
}

TEST_F(card_endpoint, cpu_forwards__whole_requests_and_their_completions) {
  make(attr_gpu_tier_t::cpu_forwards);
  ASSERT_EQ(put(300), status::ok);
  EXPECT_TRUE(maker().take_calls().empty());
  progress();
  std::uint32_t qpn = 0;
  int raw = 0;
  for (const test::fake_raw_call& one : maker().take_calls()) {
    if (one.what != "raw") continue;
    ++raw;
    qpn = one.qpn;
    EXPECT_EQ(one.bytes, bytes_of_put(300, one.qpn));
  }
  EXPECT_EQ(raw, 1);
  // The NOP of quiet() is the next.
  std::atomic<bool> is_over{false};
  status said = status::nothing;
  std::thread kernel([&] {
    said = gpu::quiet(ep_);
    is_over.store(true);
  });
  while (!is_over.load()) {
    progress();
    for (const test::fake_raw_call& one : maker().take_calls())
      if (one.what == "raw") maker().finish(qpn, one.wr_id, IBV_WC_SUCCESS);
  }
  kernel.join();
  EXPECT_EQ(said, status::ok);
}

TEST_F(card_endpoint, error__the_thread_gets_a_status_and_the_host_an_exception) {
  make(attr_gpu_tier_t::gpu_direct);
  stand_in_card a_card(seen());
  a_card.fails_with = wqe::syndrome::remote_access;
  EXPECT_EQ(run(a_card,
                [&] {
                  const status s = put(300);
                  return s != status::ok ? s : gpu::quiet(ep_);
                }),
            status::failed);
  EXPECT_EQ(gpu::syndrome_of(ep_, 0), wqe::syndrome::remote_access);
  ASSERT_EQ(thrown_.size(), 1u) << "once for each queue";
  EXPECT_EQ(thrown_[0].peer(), 0);
  EXPECT_EQ(thrown_[0].syndrome(), 0x13u);
  EXPECT_NE(std::string(thrown_[0].what()).find("0x13"), std::string::npos) << thrown_[0].what();
  EXPECT_EQ(put(300), status::dead);
}

TEST_F(card_endpoint, forced__what_fails_is_an_error_that_names_it) {
  for (const attr_gpu_tier_t tier :
       {attr_gpu_tier_t::gpu_direct, attr_gpu_tier_t::cpu_rings, attr_gpu_tier_t::cpu_forwards}) {
    card().fail_nth("mlx5dv_create_qp", 1, ENOMEM);
    const std::string text = refusal(tier);
    card().reset_failures();
    EXPECT_NE(text.find(net::name_of(tier)), std::string::npos) << text;
    EXPECT_NE(text.find("mlx5dv_create_qp"), std::string::npos) << text;
    EXPECT_TRUE(ep_.is_empty()) << "the proxy has taken its place";
  }
  card().fail_nth("ibv_modify_qp", 1, EINVAL);
  EXPECT_NE(refusal(attr_gpu_tier_t::gpu_direct).find("ibv_modify_qp"), std::string::npos);
  card().reset_failures();
}

TEST_F(card_endpoint, keys__of_the_other_kind_are_none) {
  make(attr_gpu_tier_t::gpu_direct);
  const gpu::key_t of_proxy = get_gpu_key(mr_);
  EXPECT_EQ(gpu::put(ep_, 0, {of_proxy, 0}, {key_, 0}, 8), status::bad_key);
  EXPECT_EQ(gpu::put(ep_, 0, {key_, 0}, {of_proxy, 0}, 8), status::bad_key);
  gpu::endpoint_t other = alloc_gpu_endpoint_x(device_)
                              .gpu(gpu::NO_GPU)
                              .gpu_proxy(attr_gpu_proxy_t::progress)
                              .gpu_tier(attr_gpu_tier_t::proxy)
                              .runtime(runtime_)();
  EXPECT_EQ(gpu::put(other, 0, {key_, 0}, {of_proxy, 0}, 8), status::bad_key);
  free_gpu_endpoint(&other);
  EXPECT_THROW(get_gpu_key_x(get_rmr(mr_)).endpoint(ep_)(), argument_error) << "whose is it?";
  EXPECT_EQ(get_gpu_key_x(get_rmr(mr_)).endpoint(ep_).rank(0)().key, key_.key);
}

// Through the proxy, which the host's progress is: the card has nothing of them.
TEST_F(card_endpoint, messages__go_past_the_card) {
  make(attr_gpu_tier_t::gpu_direct);
  stand_in_card a_card(seen());
  comp_t got = alloc_cq_x().runtime(runtime_)();
  const rcomp_t handler = register_rcomp_x(got).runtime(runtime_)();
  char room[300];
  ASSERT_TRUE(
      post_recv_x(0, room, sizeof(room), 1, got).device(device_).runtime(runtime_)().is_posted());
  std::memset(memory_, 7, 300);
  EXPECT_EQ(run(a_card,
                [&] {
                  gpu::ticket_t ticket;
                  gpu::message_t message;
                  status s = gpu::send(ep_, 0, {key_, 0}, 300, 1);
                  if (s == status::ok) s = gpu::am_value(ep_, 0, 5, handler);
                  if (s == status::ok) s = gpu::recv(ep_, 0, {key_, 1000}, 8, 2, &ticket);
                  if (s == status::ok) s = gpu::send_value(ep_, 0, std::uint64_t{9}, 2);
                  if (s == status::ok) s = gpu::wait_receive(ep_, ticket, &message);
                  return s == status::ok ? gpu::quiet(ep_) : s;
                }),
            status::ok);
  EXPECT_EQ(seen().record[wqe::SEND_RECORD], 0u) << "the card was told of a message";
  EXPECT_EQ(memory_[1000], 9);
  std::size_t sizes = 0;
  for (int i = 0; i < 2; ++i) {
    status_t one;
    while (!(one = cq_pop_x(got).runtime(runtime_)()).is_done()) progress();
    sizes += one.size;
    if (one.size == sizeof(int)) std::free(one.buffer);
  }
  EXPECT_EQ(sizes, 300 + sizeof(int));
  EXPECT_EQ(room[299], 7);
  free_comp_x(&got).runtime(runtime_)();
  EXPECT_TRUE(thrown_.empty());
}

// A wrong key of a message ends its queue; the card's goes on.
TEST_F(card_endpoint, messages__an_error_of_one_is_the_host_s_too) {
  make(attr_gpu_tier_t::gpu_direct);
  stand_in_card a_card(seen());
  expect_error_beside(
      a_card,
      [&](const gpu::key_t& wrong) {
        const status s = gpu::send(ep_, 0, {wrong, 0}, 300, 1);
        return s == status::ok ? gpu::quiet(ep_) : s;
      },
      0x04);
  EXPECT_EQ(gpu::syndrome_of(ep_, 0), wqe::syndrome::local_protection);
  memory_[0] = 5;
  EXPECT_EQ(put(300), status::ok) << "the card's queue goes on";
  EXPECT_EQ(run(a_card, [&] { return gpu::quiet(ep_); }), status::failed) << "of the messages";
  EXPECT_EQ(memory_[4096], 5);
}

// So do atomic operations and signals that add; each is carried out when its call returns.
TEST_F(card_endpoint, atomics__go_past_the_card) {
  make(attr_gpu_tier_t::gpu_direct);
  stand_in_card a_card(seen());
  std::uint64_t old = 0;
  EXPECT_EQ(
      run(a_card,
          [&] {
            status s = gpu::add(ep_, 0, {key_, 8}, std::uint64_t{5});
            if (s == status::ok) s = gpu::signal(ep_, 0, {key_, 8}, 2, gpu::signal_op::add);
            if (s == status::ok)
              s = gpu::fetch_add(ep_, 0, {key_, 8}, std::uint64_t{1}, {key_, 16});
            if (s == status::ok)
              s = gpu::compare_swap(ep_, 0, {key_, 8}, std::uint64_t{8}, std::uint64_t{30}, &old);
            return s == status::ok ? gpu::quiet(ep_) : s;
          }),
      status::ok);
  EXPECT_EQ(seen().record[wqe::SEND_RECORD], 0u) << "the card was told of an atomic operation";
  const auto word = [&](std::size_t offset) {
    std::uint64_t value = 0;
    std::memcpy(&value, memory_ + offset, sizeof(value));
    return value;
  };
  EXPECT_EQ(word(8), 30u);
  EXPECT_EQ(word(16), 7u);
  EXPECT_EQ(old, 8u);
  EXPECT_EQ(run(a_card,
                [&] {
                  return gpu::put_signal(ep_, 0, {key_, 4096}, {key_, 8}, 8, {key_, 24}, 3,
                                         gpu::signal_op::add);
                }),
            status::ok);
  EXPECT_EQ(word(4096), 30u);
  EXPECT_EQ(word(24), 3u);
  EXPECT_TRUE(thrown_.empty());
}

TEST_F(card_endpoint, atomics__an_error_of_one_leaves_the_card_s_queue) {
  make(attr_gpu_tier_t::gpu_direct);
  stand_in_card a_card(seen());
  expect_error_beside(
      a_card,
      [&](const gpu::key_t& wrong) {
        return gpu::add(ep_, 0, {wrong, 8}, std::uint64_t{1});
      },
      0x13);
  memory_[0] = 5;
  EXPECT_EQ(run(a_card,
                [&] {
                  const status s = put(300);
                  return s == status::ok ? gpu::signal(ep_, 0, {key_, 512}, 1) : s;
                }),
            status::ok);
  EXPECT_EQ(run(a_card, [&] { return gpu::quiet(ep_); }), status::failed) << "of the other queue";
  EXPECT_EQ(memory_[4096], 5);
  EXPECT_EQ(memory_[512], 1);
}

TEST_F(card_endpoint, free__ends_the_queue) {
  make(attr_gpu_tier_t::gpu_direct);
  stand_in_card a_card(seen());
  memory_[0] = 7;
  ASSERT_EQ(put(300), status::ok);
  std::atomic<bool> is_over{false};
  std::thread carries_out([&] {
    while (!is_over.load()) a_card.progress();
  });
  const gpu::endpoint_t copy = ep_;
  EXPECT_EQ(gpu::quiet(ep_), status::ok);
  is_over.store(true);
  carries_out.join();
  free_gpu_endpoint(&ep_);
  EXPECT_EQ(gpu::quiet(copy), status::bad_endpoint);
}

}  // namespace
}  // namespace lci::ibv
