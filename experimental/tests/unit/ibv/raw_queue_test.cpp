// Tier T2 on a stand-in: what a thread posts with the code of kernels reaches the driver byte for
// byte, each request in one piece, and what the driver completes comes back as a card completes it.
#include "experimental/ibv/gpu_tiers/raw_queue.hpp"

#include <infiniband/mlx5dv.h>

#include <cerrno>

#include "experimental/tests/unit/ibv/gpu_tiers_world.hpp"

namespace lci::ibv {
namespace {

using bytes = std::vector<unsigned char>;
using net::gpu_tier;

class raw_queue_test : public on_an_mlx5_card {
 protected:
  std::uint64_t post(const prepared& what, bool signaled = true) {
    std::uint64_t end = 0;
    wqe::send_request r = of(what);
    r.signaled = signaled;
    EXPECT_EQ(wqe::post(queue_->here(), r, &end), wqe::status::ok);
    return end;
  }
  // The requests that were handed over, with the calls around them checked.
  static std::vector<test::fake_raw_call> handed_over() {
    std::vector<test::fake_raw_call> out;
    bool is_inside = false;
    for (const test::fake_raw_call& call : maker().take_calls()) {
      if (call.what == "raw") {
        EXPECT_TRUE(is_inside) << "outside of a batch";
        out.push_back(call);
        continue;
      }
      EXPECT_EQ(call.what, is_inside ? "complete" : "start");
      is_inside = !is_inside;
    }
    EXPECT_FALSE(is_inside) << "a batch is open";
    return out;
  }
  void open(std::uint32_t blocks = 64) {
    queue_ = open_tier(gpu_tier::cpu_forwards, blocks);
    qpn_ = queue_->address().qpn;
  }
  std::unique_ptr<tier_queue> queue_;
  std::uint32_t qpn_ = 0;
};

TEST_F(raw_queue_test, made__for_raw_requests_with_room_for_each_block) {
  open(128);
  const auto q = seen();
  EXPECT_EQ(q.send_ops, std::uint64_t{MLX5DV_QP_EX_WITH_RAW_WQE});
  EXPECT_EQ(q.create_flags, unsigned{MLX5DV_QP_CREATE_DISABLE_SCATTER_TO_CQE});
  EXPECT_EQ(q.max_send_wr, 128u);
  EXPECT_TRUE(q.is_connected);
  EXPECT_EQ(queue_->here().ring.blocks, 128u);
  EXPECT_EQ(queue_->here().qpn, q.qpn);
  EXPECT_EQ(queue_->here().bell.form, wqe::doorbell_form::mailbox);
  EXPECT_EQ(wqe::check(queue_->here()), wqe::status::ok);
}

TEST_F(raw_queue_test, forward__each_request_byte_for_byte_with_its_number) {
  open();
  EXPECT_EQ(queue_->progress_st(), 0u);
  EXPECT_TRUE(maker().take_calls().empty());
  const prepared small = write_of(1), large = write_of(9);
  std::thread kernel([&] {
    post(small);
    post(large, false);
    post(small);
  });
  kernel.join();
  EXPECT_EQ(queue_->progress_st(), 3u);
  const auto calls = handed_over();
  ASSERT_EQ(calls.size(), 3u);
  bytes unsignaled = bytes_of(large, 1, qpn_);
  unsignaled[11] = 0;
  EXPECT_EQ(calls[0].bytes, bytes_of(small, 0, qpn_));
  EXPECT_EQ(calls[1].bytes, unsignaled);
  EXPECT_EQ(calls[2].bytes, bytes_of(small, 4, qpn_));
  EXPECT_EQ(calls[0].wr_id, 0u);
  EXPECT_EQ(calls[1].wr_id, 1u);
  EXPECT_EQ(calls[2].wr_id, 4u);
  for (const auto& call : calls) EXPECT_EQ(call.qpn, qpn_);
  EXPECT_EQ(queue_->progress_st(), 0u) << "each is handed over once";
}

// Many rounds of both rings; those over the end of one are handed over in one piece.
TEST_F(raw_queue_test, forward_and_complete__rounds_with_the_right_owner_bits) {
  open();
  std::uint64_t index = 0;
  bool has_wrapped = false;
  for (std::uint32_t i = 0; i < 300; ++i) {
    const prepared what = write_of(1 + i % 11);
    const std::uint64_t end = post(what);
    EXPECT_EQ(queue_->progress_st(), 1u);
    const auto calls = handed_over();
    ASSERT_EQ(calls.size(), 1u);
    ASSERT_EQ(calls[0].bytes, bytes_of(what, index, qpn_)) << "request " << i;
    EXPECT_EQ(calls[0].wr_id, index);
    has_wrapped |= index % 64 + (end - index) > 64;
    EXPECT_EQ(queue_->here().state->done, index);
    maker().finish(qpn_, index, IBV_WC_SUCCESS, 0, 5);
    EXPECT_EQ(queue_->progress_st(), 1u);
    wqe::completion c;
    EXPECT_EQ(wqe::poll(queue_->here().cq, i, &c), wqe::status::ok) << "owner bit of entry " << i;
    EXPECT_EQ(wqe::poll(queue_->here().cq, i + 64, &c), wqe::status::nothing);
    EXPECT_EQ(wqe::poll(queue_->here().cq, i, &c), wqe::status::ok);
    EXPECT_EQ(c.wqe_counter, static_cast<std::uint16_t>(index));
    EXPECT_EQ(c.qpn, qpn_);
    EXPECT_EQ(c.send_opcode, static_cast<std::uint8_t>(wqe::opcode::rdma_write));
    EXPECT_EQ(c.byte_count, 5u);
    ASSERT_EQ(wqe::wait_until_done(queue_->here(), end), wqe::status::ok);
    index = end;
  }
  EXPECT_TRUE(has_wrapped);
}

TEST_F(raw_queue_test, forward__what_the_driver_has_no_room_for_comes_again) {
  open();
  const prepared what = write_of(1);
  post(what);
  post(what);
  card().fail_nth("wr_complete", 1, ENOMEM, 2);
  EXPECT_EQ(queue_->progress_st(), 0u);
  EXPECT_EQ(queue_->progress_st(), 0u);
  handed_over();
  EXPECT_EQ(queue_->progress_st(), 2u);
  const auto calls = handed_over();
  ASSERT_EQ(calls.size(), 2u);
  EXPECT_EQ(calls[0].bytes, bytes_of(what, 0, qpn_));
  EXPECT_EQ(calls[1].bytes, bytes_of(what, 1, qpn_));
}

TEST_F(raw_queue_test, forward__what_the_driver_refuses_ends_the_queue) {
  open();
  const std::uint64_t end = post(write_of(1));
  card().fail_nth("wr_complete", 1, EINVAL);
  EXPECT_EQ(queue_->progress_st(), 0u);
  EXPECT_EQ(wqe::wait_until_done(queue_->here(), end), wqe::status::failed);
  EXPECT_EQ(queue_->here().state->error.error, wqe::syndrome::local_qp_operation);
  handed_over();
  EXPECT_EQ(queue_->progress_st(), 0u);
  EXPECT_TRUE(maker().take_calls().empty());
}

// Bytes that no post() of this queue writes.
TEST_F(raw_queue_test, forward__bytes_that_are_no_request_of_this_queue_are_not_handed_over) {
  const wqe::octoword foreign = wqe::control_segment(0, 1, wqe::opcode::nop, 0x7654, 1, 8, 0);
  for (const wqe::octoword& wrong :
       {wqe::octoword{}, foreign, wqe::control_segment(0, 1, wqe::opcode::nop, 0, 63, 8, 0)}) {
    queue_.reset();
    open();
    post(write_of(1));
    wqe::octoword bad = wrong;
    // Longer than what was rung for.
    if ((wqe::be32(bad.word[1]) & 63) == 63) bad.word[1] = wqe::be32(qpn_ << 8 | 63);
    *wqe::octoword_at(queue_->here().ring, 1, 0) = bad;
    *static_cast<std::uint64_t*>(queue_->here().bell.target) = 2;
    EXPECT_EQ(queue_->progress_st(), 1u) << "the one before";
    EXPECT_EQ(handed_over().size(), 1u);
    EXPECT_EQ(queue_->progress_st(), 0u);
    EXPECT_TRUE(maker().take_calls().empty());
    wqe::completion c;
    EXPECT_EQ(wqe::poll(queue_->here().cq, 0, &c), wqe::status::failed);
    EXPECT_EQ(c.error, wqe::syndrome::local_qp_operation);
    EXPECT_EQ(c.wqe_counter, 1u);
  }
}

TEST_F(raw_queue_test, complete__an_error_with_the_syndrome_and_the_makers_code) {
  open();
  const std::uint64_t end = post(write_of(1));
  EXPECT_EQ(queue_->progress_st(), 1u);
  maker().finish(qpn_, 0, IBV_WC_REM_ACCESS_ERR, 0x88);
  EXPECT_EQ(queue_->progress_st(), 1u);
  EXPECT_EQ(wqe::wait_until_done(queue_->here(), end), wqe::status::failed);
  EXPECT_EQ(queue_->here().state->error.error, wqe::syndrome::remote_access);
  EXPECT_EQ(queue_->here().state->error.vendor_error, 0x88);
}

TEST_F(raw_queue_test, complete__an_entry_is_left_with_the_driver_while_the_kernels_queue_is_full) {
  open(16);
  for (int i = 0; i < 16; ++i) post(write_of(1));
  EXPECT_EQ(queue_->progress_st(), 16u);
  // Twice as many as there are places, as if the kernel had given none back.
  for (std::uint64_t i = 0; i < 16; ++i) {
    maker().finish(qpn_, i, IBV_WC_SUCCESS);
    maker().finish(qpn_, i, IBV_WC_SUCCESS);
  }
  EXPECT_EQ(queue_->progress_st(), 16u);
  EXPECT_EQ(queue_->progress_st(), 0u);
  EXPECT_EQ(maker().waiting_completions(), 16u);
  wqe::give_back(queue_->here().cq, 3);
  EXPECT_EQ(queue_->progress_st(), 3u);
  EXPECT_EQ(maker().waiting_completions(), 13u);
}

TEST_F(raw_queue_test, many_threads__all_are_handed_over_and_done) {
  constexpr std::uint64_t THREADS = 4, EACH = 500;
  open();
  const prepared what = write_of(5);
  std::atomic<std::uint64_t> running{THREADS};
  std::vector<std::thread> kernels;
  for (std::uint64_t t = 0; t < THREADS; ++t)
    kernels.emplace_back([&] {
      std::uint64_t end = 0;
      for (std::uint64_t i = 0; i < EACH; ++i) end = post(what, i + 1 == EACH);
      EXPECT_EQ(wqe::wait_until_done(queue_->here(), end), wqe::status::ok);
      running.fetch_sub(1);
    });
  std::uint64_t count = 0, next = 0;
  while (running.load() != 0) {
    if (queue_->progress_st() == 0) std::this_thread::yield();
    for (const test::fake_raw_call& call : handed_over()) {
      EXPECT_EQ(call.wr_id, next) << "in order, and each once";
      next = call.wr_id + wqe::blocks_of(call.bytes[7] & 63u);
      ++count;
      if ((call.bytes[11] & wqe::CQ_UPDATE) != 0) maker().finish(qpn_, call.wr_id, IBV_WC_SUCCESS);
    }
  }
  for (std::thread& one : kernels) one.join();
  EXPECT_EQ(count, THREADS * EACH);
}

TEST_F(raw_queue_test, at_gpu__every_address_is_the_mapped_one_in_one_range) {
  written_maps maps;
  {
    const auto queue = open_tier(gpu_tier::cpu_forwards, 64, &maps);
    const wqe::send_queue &here = queue->here(), &gpu = queue->at_gpu();
    EXPECT_EQ(gpu.ring.base, written_maps::at(here.ring.base));
    EXPECT_EQ(gpu.cq.base, written_maps::at(here.cq.base));
    EXPECT_EQ(gpu.cq.record, written_maps::at(here.cq.record));
    EXPECT_EQ(gpu.state, written_maps::at(here.state));
    EXPECT_EQ(gpu.bell.target, written_maps::at(here.bell.target));
    EXPECT_EQ(gpu.qpn, here.qpn);
    EXPECT_EQ(maps.mapped.size(), 1u);
    EXPECT_FALSE(maps.mapped.begin()->second.is_register);
  }
  EXPECT_EQ(maps.mapped.size(), 0u);
  EXPECT_EQ(maps.wrong, 0);
}

TEST_F(raw_queue_test, refused__each_call_with_its_name) {
  for (const char* call : {"ibv_create_cq_ex", "mlx5dv_create_qp for raw"}) {
    card().fail_nth(call, 1, EPERM);
    EXPECT_TRUE(test::throws_with<backend_error>([&] { open(); }, {call + 4, "not permitted"}))
        << call;
    card().reset_failures();
  }
  test::fake_mlx5_config config;
  config.has_raw = false;
  maker().reset(config);
  EXPECT_TRUE(test::throws_with<backend_error>([&] { open(); }, {"accepts no raw work requests"}));
}

TEST(raw_forwarder, syndrome_of__is_the_inverse_of_what_the_library_reports) {
  for (const wqe::syndrome one :
       {wqe::syndrome::none, wqe::syndrome::local_length, wqe::syndrome::local_qp_operation,
        wqe::syndrome::local_protection, wqe::syndrome::flushed, wqe::syndrome::window_bind,
        wqe::syndrome::bad_response, wqe::syndrome::local_access,
        wqe::syndrome::remote_invalid_request, wqe::syndrome::remote_access,
        wqe::syndrome::remote_operation, wqe::syndrome::retry_exceeded,
        wqe::syndrome::rnr_retry_exceeded, wqe::syndrome::remote_aborted})
    EXPECT_EQ(syndrome_of(static_cast<ibv_wc_status>(wqe::wc_status_of(one))), one);
  EXPECT_EQ(wqe::wc_status_of(syndrome_of(IBV_WC_GENERAL_ERR)), IBV_WC_GENERAL_ERR);
  EXPECT_EQ(syndrome_of(IBV_WC_WR_FLUSH_ERR), wqe::syndrome::flushed);
}

}  // namespace
}  // namespace lci::ibv
