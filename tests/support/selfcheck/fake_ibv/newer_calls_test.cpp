// Shows that the fake verbs library notices what is done wrongly with extended completion queues
// and with thread domains, and that a card may lack them.
#include <gtest/gtest.h>

#include <cerrno>
#include <thread>

#include "tests/support/selfcheck/fake_ibv/calls.hpp"

namespace lci::test {
namespace {

class newer_calls : public testing::Test {
 protected:
  void open(bool has_newer_calls = true) {
    fake_ibv_config config;
    config.collects = true;
    config.devices[0].has_extended_queues = config.devices[0].has_thread_domains = has_newer_calls;
    library().reset(config);
    ibv_device** const list = LCI_CALL(ibv_get_device_list)(nullptr);
    context_ = LCI_CALL(ibv_open_device)(list[0]);
    LCI_CALL(ibv_free_device_list)(list);
    pd_ = LCI_CALL(ibv_alloc_pd)(context_);
  }
  void TearDown() override {
    LCI_CALL(ibv_dealloc_pd)(pd_);
    LCI_CALL(ibv_close_device)(context_);
    EXPECT_EQ(library().live().all(), 0u);
  }
  ibv_cq_ex* make_queue(std::uint64_t fields) {
    ibv_cq_init_attr_ex wanted{};
    wanted.cqe = 8;
    wanted.wc_flags = fields;
    return ibv_create_cq_ex(context_, &wanted);
  }
  // A queue pair, in the error state: what is posted on it is flushed at once.
  ibv_qp* make_pair(ibv_pd* pd, ibv_cq* cq) {
    ibv_qp_init_attr made{};
    made.send_cq = made.recv_cq = cq;
    made.qp_type = IBV_QPT_RC;
    made.cap = {8, 1, 1, 1, 16};
    ibv_qp* const qp = LCI_CALL(ibv_create_qp)(pd, &made);
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_ERR;
    LCI_CALL(ibv_modify_qp)(qp, &attr, IBV_QP_STATE);
    return qp;
  }
  static void post(ibv_qp* qp) {
    ibv_send_wr wr{}, *bad = nullptr;
    wr.wr_id = 7;
    wr.opcode = IBV_WR_RDMA_WRITE;
    ibv_post_send(qp, &wr, &bad);
  }
  static std::size_t complaints() { return library().take_complaints().size(); }

  ibv_context* context_ = nullptr;
  ibv_pd* pd_ = nullptr;
};

TEST_F(newer_calls, card_without__offers_none) {
  open(false);
  EXPECT_EQ(make_queue(0), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  ibv_td_init_attr usual{};
  EXPECT_EQ(ibv_alloc_td(context_, &usual), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
}

TEST_F(newer_calls, extended_queue__is_polled_in_order_and_its_misuse_is_a_complaint) {
  open();
  ibv_cq_ex* const queue = make_queue(IBV_WC_EX_WITH_QP_NUM);
  ibv_cq* const older = ibv_cq_ex_to_cq(queue);
  ibv_qp* const qp = make_pair(pd_, older);
  ibv_poll_cq_attr nothing{};
  EXPECT_EQ(ibv_start_poll(queue, &nothing), ENOENT);
  for (int i = 0; i < 2; ++i) post(qp);
  ASSERT_EQ(ibv_start_poll(queue, &nothing), 0);
  EXPECT_EQ(queue->wr_id, 7u);
  EXPECT_EQ(queue->status, IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(ibv_wc_read_qp_num(queue), qp->qp_num);
  EXPECT_EQ(complaints(), 0u);
  ibv_wc_read_byte_len(queue);
  EXPECT_EQ(complaints(), 1u) << "a field that was not asked for";
  ibv_start_poll(queue, &nothing);
  EXPECT_EQ(complaints(), 1u) << "a poll inside of a poll";
  ibv_end_poll(queue);
  ibv_end_poll(queue);
  EXPECT_EQ(complaints(), 1u) << "an end without a start";
  ibv_wc done;
  ibv_poll_cq(older, 1, &done);
  EXPECT_EQ(complaints(), 1u) << "the older call";
  LCI_CALL(ibv_destroy_qp)(qp);
  LCI_CALL(ibv_destroy_cq)(older);
}

TEST_F(newer_calls, thread_domain__two_posts_at_the_same_time_are_a_complaint) {
  open();
  ibv_td_init_attr usual{};
  ibv_td* const td = ibv_alloc_td(context_, &usual);
  ibv_parent_domain_init_attr wanted{};
  wanted.pd = pd_;
  wanted.td = td;
  ibv_pd* const domain = ibv_alloc_parent_domain(context_, &wanted);
  EXPECT_EQ(ibv_dealloc_td(td), EBUSY);
  EXPECT_EQ(LCI_CALL(ibv_dealloc_pd)(pd_), EBUSY);
  ibv_cq* const cq = LCI_CALL(ibv_create_cq)(context_, 8, nullptr, nullptr, 0);
  ibv_qp* const qps[] = {make_pair(domain, cq), make_pair(domain, cq)};
  for (ibv_qp* qp : qps) post(qp);
  EXPECT_EQ(complaints(), 0u);
  // The queue overflows, which is another complaint.
  const auto has_met = [] {
    for (const std::string& one : library().take_complaints())
      if (one == "two posts at the same time in one thread domain") return true;
    return false;
  };
  std::atomic<bool> met{false};
  std::thread other([&] {
    while (!met.load()) post(qps[1]);
  });
  for (int i = 0; i < 1000000 && !met.load(); ++i) {
    post(qps[0]);
    if (has_met()) met = true;
  }
  EXPECT_TRUE(met.exchange(true));
  other.join();
  library().take_complaints();
  for (ibv_qp* qp : qps) LCI_CALL(ibv_destroy_qp)(qp);
  LCI_CALL(ibv_destroy_cq)(cq);
  LCI_CALL(ibv_dealloc_pd)(domain);
  EXPECT_EQ(ibv_dealloc_td(td), 0);
}

}  // namespace
}  // namespace lci::test
