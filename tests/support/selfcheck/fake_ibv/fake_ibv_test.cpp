// Shows that the fake verbs library notices what no card forgives, and is as odd as asked for.
#include "tests/support/selfcheck/fake_ibv/calls.hpp"

#include <gtest/gtest.h>

#include <cerrno>
#include <functional>

namespace lci::test {
namespace {

// A connected pair of queue pairs with 64 bytes of memory and a shared receive queue.
class fake_ibv_test : public testing::Test {
 protected:
  static constexpr int DEPTH = 8;
  using change_of_path = std::function<void(ibv_ah_attr&)>;
  void SetUp() override { open(); }
  // With a path that is changed at one end.
  void open(const fake_device& device = {}, const change_of_path& change = {}, int changed = 0) {
    fake_ibv_config config;
    config.devices = {device};
    config.collects = true;
    library().reset(config);
    ibv_device** const list = LCI_CALL(ibv_get_device_list)(nullptr);
    context_ = LCI_CALL(ibv_open_device)(list[0]);
    LCI_CALL(ibv_free_device_list)(list);
    pd_ = LCI_CALL(ibv_alloc_pd)(context_);
    cq_ = LCI_CALL(ibv_create_cq)(context_, DEPTH, nullptr, nullptr, 0);
    ibv_srq_init_attr srq{};
    srq.attr = {DEPTH, 1, 0};
    srq_ = LCI_CALL(ibv_create_srq)(pd_, &srq);
    mr_ = LCI_CALL(ibv_reg_mr)(pd_, memory_, sizeof(memory_), ALL);
    for (ibv_qp*& qp : qp_) {
      ibv_qp_init_attr made{};
      made.send_cq = made.recv_cq = cq_;
      made.srq = srq_;
      made.qp_type = IBV_QPT_RC;
      made.cap = {DEPTH, 1, 1, 1, 16};
      qp = LCI_CALL(ibv_create_qp)(pd_, &made);
    }
    for (int i = 0; i < 2; ++i)
      connect(*qp_[i], *qp_[1 - i], i == changed ? change : change_of_path());
  }
  void TearDown() override { close(); }
  void close() {
    for (ibv_qp* qp : qp_)
      if (qp != nullptr) LCI_CALL(ibv_destroy_qp)(qp);
    LCI_CALL(ibv_destroy_srq)(srq_);
    LCI_CALL(ibv_destroy_cq)(cq_);
    if (mr_ != nullptr) LCI_CALL(ibv_dereg_mr)(mr_);
    LCI_CALL(ibv_dealloc_pd)(pd_);
    LCI_CALL(ibv_close_device)(context_);
    EXPECT_EQ(library().live().all(), 0u);
  }
  static int move_to(ibv_qp& qp, ibv_qp_attr& attr, ibv_qp_state to, int mask) {
    attr.qp_state = to;
    return LCI_CALL(ibv_modify_qp)(&qp, &attr, IBV_QP_STATE | mask);
  }
  static void connect(ibv_qp& one, const ibv_qp& other, const change_of_path& change = {}) {
    ibv_qp_attr attr{};
    attr.port_num = 1;
    attr.qp_access_flags = ALL;
    attr.path_mtu = IBV_MTU_1024;
    attr.dest_qp_num = other.qp_num;
    attr.ah_attr.port_num = attr.ah_attr.is_global = 1;
    attr.ah_attr.grh.sgid_index = 3;
    LCI_CALL(ibv_query_gid)(one.context, 1, 3, &attr.ah_attr.grh.dgid);
    if (change) change(attr.ah_attr);
    ASSERT_NE(move_to(one, attr, IBV_QPS_RTS, 0), 0) << "steps cannot be left out";
    ASSERT_NE(move_to(one, attr, IBV_QPS_INIT, IBV_QP_PORT), 0) << "nor what a step needs";
    ASSERT_EQ(
        move_to(one, attr, IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS), 0);
    constexpr int PATH = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                         IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
    ibv_qp_attr from_nowhere = attr;
    from_nowhere.ah_attr.grh.sgid_index = 4;
    ASSERT_NE(move_to(one, from_nowhere, IBV_QPS_RTR, PATH), 0) << "there is no such address";
    ASSERT_EQ(move_to(one, attr, IBV_QPS_RTR, PATH), 0);
    ASSERT_EQ(move_to(one, attr, IBV_QPS_RTS,
                      IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                          IBV_QP_MAX_QP_RD_ATOMIC),
              0);
  }
  int post(ibv_wr_opcode what, unsigned flags, std::uint32_t lkey, std::uint32_t rkey) {
    ibv_sge part{reinterpret_cast<std::uint64_t>(memory_), 8, lkey};
    ibv_send_wr wr{};
    wr.sg_list = &part;
    wr.num_sge = 1;
    wr.opcode = what;
    wr.send_flags = flags;
    wr.wr.rdma.remote_addr = reinterpret_cast<std::uint64_t>(memory_ + 32);
    wr.wr.rdma.rkey = rkey;
    ibv_send_wr* bad = nullptr;
    return ibv_post_send(qp_[0], &wr, &bad);
  }
  int post_receive(std::uint32_t lkey) {
    ibv_sge part{reinterpret_cast<std::uint64_t>(memory_ + 16), 8, lkey};
    ibv_recv_wr wr{7, nullptr, &part, 1};
    ibv_recv_wr* bad = nullptr;
    return ibv_post_srq_recv(srq_, &wr, &bad);
  }
  // The states of what can be polled.
  std::vector<ibv_wc_status> poll() {
    std::vector<ibv_wc_status> out;
    ibv_wc done;
    while (ibv_poll_cq(cq_, 1, &done) == 1) out.push_back(done.status);
    return out;
  }
  using states = std::vector<ibv_wc_status>;

  static constexpr int ALL =
      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
  ibv_context* context_ = nullptr;
  ibv_pd* pd_ = nullptr;
  ibv_cq* cq_ = nullptr;
  ibv_srq* srq_ = nullptr;
  ibv_mr* mr_ = nullptr;
  ibv_qp* qp_[2] = {};
  char memory_[64] = {};
};

TEST_F(fake_ibv_test, write_and_read__move_bytes) {
  memory_[0] = 'x';
  EXPECT_EQ(post(IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED, mr_->lkey, mr_->rkey), 0);
  EXPECT_EQ(memory_[32], 'x');
  memory_[32] = 'y';
  EXPECT_EQ(post(IBV_WR_RDMA_READ, IBV_SEND_SIGNALED, mr_->lkey, mr_->rkey), 0);
  EXPECT_EQ(memory_[0], 'y');
  EXPECT_EQ(poll(), (states{IBV_WC_SUCCESS, IBV_WC_SUCCESS}));
}

TEST_F(fake_ibv_test, path__that_is_wrong_at_either_end_loses_everything) {
  const change_of_path wrong[] = {
      [](ibv_ah_attr& path) { path.grh.dgid.raw[15] ^= 1; },
      // Another address of the same port: the other side does not know it, or does not answer so.
      [](ibv_ah_attr& path) { path.grh.sgid_index = 1; },
      [this](ibv_ah_attr& path) {
        LCI_CALL(ibv_query_gid)
        (context_, 1, 1, &path.grh.dgid);
      },
  };
  for (const change_of_path& change : wrong)
    for (const int end : {0, 1}) {
      close();
      open({}, change, end);
      post(IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED, mr_->lkey, mr_->rkey);
      EXPECT_EQ(poll(), (states{IBV_WC_RETRY_EXC_ERR}));
    }
}

TEST_F(fake_ibv_test, registrations__beyond_the_limit_are_refused_until_others_end) {
  fake_ibv_config config;
  config.most_registered = 2 * sizeof(memory_) - 1;
  library().change(config);
  EXPECT_EQ(LCI_CALL(ibv_reg_mr)(pd_, memory_, sizeof(memory_), ALL), nullptr);
  EXPECT_EQ(errno, ENOMEM);
  LCI_CALL(ibv_dereg_mr)(mr_);
  mr_ = LCI_CALL(ibv_reg_mr)(pd_, memory_, sizeof(memory_), ALL);
  EXPECT_NE(mr_, nullptr);
}

TEST_F(fake_ibv_test, message__that_is_longer_than_the_port_takes_fails) {
  for (const std::uint32_t most : {7u, 8u}) {
    close();
    fake_device small;
    small.max_msg_sz = most;
    open(small);
    post(IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED, mr_->lkey, mr_->rkey);
    EXPECT_EQ(poll(), (states{most < 8 ? IBV_WC_LOC_LEN_ERR : IBV_WC_SUCCESS}));
  }
}

TEST_F(fake_ibv_test, keys__are_not_the_same_and_both_are_checked) {
  post(IBV_WR_RDMA_WRITE, 0, mr_->rkey, mr_->rkey);
  EXPECT_EQ(poll(), (states{IBV_WC_LOC_PROT_ERR}));
}

TEST_F(fake_ibv_test, remote_key__wrong_or_withdrawn_breaks_the_connection) {
  post(IBV_WR_RDMA_WRITE, 0, mr_->lkey, mr_->lkey);
  EXPECT_EQ(poll(), (states{IBV_WC_REM_ACCESS_ERR}));
  post(IBV_WR_RDMA_WRITE, 0, mr_->lkey, mr_->rkey);
  EXPECT_EQ(poll(), (states{IBV_WC_WR_FLUSH_ERR})) << "flushed though not signalled";
  EXPECT_EQ(memory_[32], 0);
}

TEST_F(fake_ibv_test, send_queue__is_full_until_a_later_completion_was_polled) {
  for (int i = 0; i < DEPTH - 1; ++i)
    ASSERT_EQ(post(IBV_WR_RDMA_WRITE, 0, mr_->lkey, mr_->rkey), 0);
  ASSERT_EQ(post(IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED, mr_->lkey, mr_->rkey), 0);
  EXPECT_EQ(post(IBV_WR_RDMA_WRITE, 0, mr_->lkey, mr_->rkey), ENOMEM);
  EXPECT_EQ(poll().size(), 1u);
  EXPECT_EQ(post(IBV_WR_RDMA_WRITE, 0, mr_->lkey, mr_->rkey), 0);
}

TEST_F(fake_ibv_test, message_without_receive__waits) {
  EXPECT_EQ(post(IBV_WR_SEND, IBV_SEND_SIGNALED, mr_->lkey, 0), 0);
  EXPECT_TRUE(poll().empty());
  EXPECT_EQ(post_receive(mr_->lkey), 0);
  EXPECT_EQ(poll(), (states{IBV_WC_SUCCESS, IBV_WC_SUCCESS}));
}

TEST_F(fake_ibv_test, completion_queue_that_overflows__is_a_complaint) {
  for (int i = 0; i < DEPTH; ++i) post(IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED, mr_->lkey, mr_->rkey);
  EXPECT_TRUE(library().take_complaints().empty());
  post_receive(mr_->lkey);
  ibv_sge part{reinterpret_cast<std::uint64_t>(memory_), 8, mr_->lkey};
  ibv_send_wr wr{}, *bad = nullptr;
  wr.sg_list = &part;
  wr.num_sge = 1;
  wr.opcode = IBV_WR_SEND;
  EXPECT_EQ(ibv_post_send(qp_[1], &wr, &bad), 0);
  EXPECT_EQ(library().take_complaints(),
            std::vector<std::string>{"a completion queue of 8 entries overflows"});
}

TEST_F(fake_ibv_test, receive_that_may_not_be_written__is_a_complaint) {
  post_receive(mr_->rkey);
  post(IBV_WR_SEND, 0, mr_->lkey, 0);
  EXPECT_EQ(library().take_complaints().size(), 1u);
  EXPECT_EQ(poll(), (states{IBV_WC_LOC_PROT_ERR, IBV_WC_REM_OP_ERR}));
}

TEST_F(fake_ibv_test, what_is_in_use__cannot_be_destroyed) {
  EXPECT_EQ(LCI_CALL(ibv_dealloc_pd)(pd_), EBUSY);
  EXPECT_EQ(LCI_CALL(ibv_destroy_cq)(cq_), EBUSY);
  EXPECT_EQ(LCI_CALL(ibv_destroy_srq)(srq_), EBUSY);
}

TEST_F(fake_ibv_test, peer_that_is_gone__is_no_acknowledgement) {
  LCI_CALL(ibv_destroy_qp)(qp_[1]);
  qp_[1] = nullptr;
  post(IBV_WR_RDMA_WRITE, 0, mr_->lkey, mr_->rkey);
  EXPECT_EQ(poll(), (states{IBV_WC_RETRY_EXC_ERR}));
}

TEST_F(fake_ibv_test, failing_call__is_the_one_that_was_named) {
  library().fail_nth("post_send", 2, EIO);
  EXPECT_EQ(post(IBV_WR_RDMA_WRITE, 0, mr_->lkey, mr_->rkey), 0);
  EXPECT_EQ(post(IBV_WR_RDMA_WRITE, 0, mr_->lkey, mr_->rkey), EIO);
  EXPECT_EQ(post(IBV_WR_RDMA_WRITE, 0, mr_->lkey, mr_->rkey), 0);
  EXPECT_EQ(library().count("post_send"), 3u);
}

TEST_F(fake_ibv_test, completions__few_and_late_when_asked_for) {
  fake_ibv_config odd;
  odd.collects = true;
  odd.delay = 3;
  odd.most_per_poll = 1;
  library().change(odd);
  for (int i = 0; i < 3; ++i) post(IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED, mr_->lkey, mr_->rkey);
  ibv_wc done[8];
  std::vector<int> got;
  for (int i = 0; i < 7; ++i) got.push_back(ibv_poll_cq(cq_, 8, done));
  EXPECT_EQ(got, (std::vector<int>{0, 0, 0, 1, 1, 1, 0}));
}

}  // namespace
}  // namespace lci::test
