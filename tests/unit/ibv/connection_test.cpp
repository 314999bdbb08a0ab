#include "backends/ibv/connection.hpp"

#include "backends/ibv/work.hpp"
#include "tests/unit/ibv/world.hpp"

namespace lci::ibv {
namespace {

constexpr std::uint32_t DEPTH = 16, RESERVED = 6;

// A connection whose peer is a queue pair beside it that takes writes of no bytes.
class connection_test : public on_a_card {
 protected:
  connection_test() : port_(open_best_port({})) {
    pd_.reset(library().alloc_pd(port_.context.get()));
    cq_.reset(library().create_cq(port_.context.get(), 100, nullptr, nullptr, 0));
    far_ = make();
    qp_handle near = make();
    connect(*near, *far_);
    connect(*far_, *near);
    on_ = std::make_unique<connection>(1, std::move(near), 0, DEPTH, RESERVED);
  }
  qp_handle make() {
    ibv_qp_init_attr made{};
    made.send_cq = made.recv_cq = cq_.get();
    made.qp_type = IBV_QPT_RC;
    made.cap = {DEPTH, 1, 1, 1, 0};
    return qp_handle(library().create_qp(pd_.get(), &made));
  }
  static void connect(ibv_qp& one, const ibv_qp& other) {
    ibv_qp_attr attr{};
    attr.port_num = 1;
    attr.path_mtu = IBV_MTU_1024;
    attr.dest_qp_num = other.qp_num;
    attr.ah_attr.port_num = 1;
    attr.ah_attr.is_global = 1;
    library().query_gid(one.context, 1, 0, &attr.ah_attr.grh.dgid);  // both are there
    attr.qp_state = IBV_QPS_INIT;
    const auto step = [&](int mask) {
      ASSERT_EQ(library().modify_qp(&one, &attr, IBV_QP_STATE | mask), 0);
    };
    step(IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
    attr.qp_state = IBV_QPS_RTR;
    step(IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
         IBV_QP_MIN_RNR_TIMER);
    attr.qp_state = IBV_QPS_RTS;
    step(IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
         IBV_QP_MAX_QP_RD_ATOMIC);
  }
  errorcode_t post(bool is_awaited, purpose what = purpose::user, void* context = nullptr) {
    work one(IBV_WR_RDMA_WRITE);
    if (!is_awaited) return on_->post(one.wr, claim_of(what));
    return on_->post(one.wr, {.context = context, .what = what});
  }
  errorcode_t post(claim by) {
    work one(IBV_WR_RDMA_WRITE);
    return on_->post(one.wr, by);
  }
  // Numbers of records of what the card reports.
  std::vector<std::uint64_t> completed() {
    std::vector<std::uint64_t> out;
    ibv_wc done;
    while (ibv_poll_cq(cq_.get(), 1, &done) == 1) {
      send_record record;
      std::uint64_t number = 0;
      while (on_->take_done(number_of(done.wr_id), record, number)) out.push_back(number);
    }
    return out;
  }

  chosen_port port_;
  pd_handle pd_;
  cq_handle cq_;
  qp_handle far_;
  std::unique_ptr<connection> on_;
};

TEST_F(connection_test, post__answers_what_the_stage_says) {
  EXPECT_EQ(post(true), errorcode_t::retry_nomem);
  on_->move(connection::stage::ready);
  EXPECT_EQ(post(true), errorcode_t::done);
  on_->move(connection::stage::failed);
  EXPECT_EQ(post(true), errorcode_t::fatal);
  EXPECT_FALSE(on_->move(connection::stage::left)) << "only forward";
  EXPECT_EQ(card().count("post_send"), 1u);
}

TEST_F(connection_test, post__no_more_than_fit_and_the_last_places_are_ours) {
  on_->move(connection::stage::ready);
  for (std::uint32_t i = 0; i < DEPTH - RESERVED; ++i) ASSERT_EQ(post(false), errorcode_t::done);
  EXPECT_EQ(post(false), errorcode_t::retry_nomem);
  EXPECT_EQ(post(true), errorcode_t::retry_nomem);
  EXPECT_FALSE(on_->has_room(claim::user));
  EXPECT_TRUE(on_->has_room(claim::library));
  for (std::uint32_t i = 0; i < RESERVED - connection::RESERVE; ++i)
    ASSERT_EQ(post(claim::library), errorcode_t::done);
  EXPECT_EQ(post(claim::library), errorcode_t::retry_nomem);
  for (std::uint32_t i = 0; i < connection::RESERVE; ++i)
    ASSERT_EQ(post(true, purpose::keepalive), errorcode_t::done) << i;
  EXPECT_EQ(post(true, purpose::keepalive), errorcode_t::retry_nomem);
  EXPECT_EQ(card().count("post_send"), DEPTH) << "the card was asked for more than it has";
  EXPECT_EQ(completed().size(), connection::RESERVE) << "who is awaited";
  EXPECT_TRUE(on_->is_idle());
  EXPECT_EQ(post(false), errorcode_t::done);
}

// However little is left for users, they go on.
TEST_F(connection_test, post__with_nearly_all_places_reserved) {
  for (const std::uint32_t reserved : {DEPTH - 3, DEPTH - 1, DEPTH, 1000 * DEPTH}) {
    qp_handle near = make();
    far_ = make();
    connect(*near, *far_);
    connect(*far_, *near);
    on_ = std::make_unique<connection>(1, std::move(near), 0, DEPTH, reserved);
    on_->move(connection::stage::ready);
    for (int i = 0; i < 20; ++i) {
      while (post(false) == errorcode_t::done) {
      }
      EXPECT_EQ(completed(), std::vector<std::uint64_t>());
      ASSERT_EQ(post(false), errorcode_t::done) << reserved;
    }
    while (post(claim::library) == errorcode_t::done) {
    }
    completed();
  }
}

TEST_F(connection_test, post__what_nobody_awaits_is_signalled_once_in_a_quarter) {
  on_->move(connection::stage::ready);
  for (std::uint32_t i = 0; i < DEPTH / 4; ++i) {
    EXPECT_EQ(card().waiting_completions(), 0u) << i;
    ASSERT_EQ(post(false), errorcode_t::done);
  }
  EXPECT_EQ(card().waiting_completions(), 1u);
  EXPECT_FALSE(on_->is_idle());
  EXPECT_EQ(completed(), std::vector<std::uint64_t>()) << "nobody is told";
  EXPECT_TRUE(on_->is_idle()) << "all places are free";
}

TEST_F(connection_test, post__refused_by_the_card_has_changed_nothing) {
  std::uint64_t number = 0;
  on_->move(connection::stage::ready);
  for (const int error : {ENOMEM, EINVAL}) {
    ASSERT_EQ(post(false), errorcode_t::done);
    card().fail_nth("post_send", 1, error);
    EXPECT_EQ(post(true), errorcode_t::retry_nomem);
    EXPECT_EQ(on_->refused(), error == EINVAL ? EINVAL : 0);
    ASSERT_EQ(post(true), errorcode_t::done);
    EXPECT_EQ(completed(), std::vector<std::uint64_t>{number + 1}) << "no place is lost";
    number += 2;
    EXPECT_TRUE(on_->is_idle());
  }
}

// A sink that polls again takes what was posted later; what comes after is older news.
TEST_F(connection_test, take_done__older_news_after_newer_ones_takes_nothing_back) {
  on_->move(connection::stage::ready);
  for (int i = 0; i < 3; ++i) ASSERT_EQ(post(true), errorcode_t::done);
  send_record record;
  std::uint64_t number = 0;
  while (on_->take_done(2, record, number)) {
  }
  EXPECT_EQ(number, 2u);
  EXPECT_TRUE(on_->is_idle());
  EXPECT_FALSE(on_->take_done(0, record, number));
  EXPECT_TRUE(on_->is_idle());
}

TEST_F(connection_test, is_drained__until_the_last_user_has_heard) {
  on_->move(connection::stage::ready);
  ASSERT_EQ(post(false), errorcode_t::done);
  ASSERT_EQ(post(true, purpose::keepalive), errorcode_t::done);
  EXPECT_TRUE(on_->is_drained()) << "nobody waits";
  ASSERT_EQ(post(true), errorcode_t::done);
  EXPECT_FALSE(on_->is_drained());
  card().fail_nth("post_send", 1, ENOMEM);
  EXPECT_EQ(post(true), errorcode_t::retry_nomem);
  EXPECT_EQ(completed().size(), 2u);
  EXPECT_FALSE(on_->is_drained()) << "taken, but not told";
  on_->finish_user();
  EXPECT_TRUE(on_->is_drained());
}

TEST_F(connection_test, take_done__nothing_beyond_what_was_posted) {
  on_->move(connection::stage::ready);
  send_record record;
  std::uint64_t number = 0;
  EXPECT_FALSE(on_->take_done(~std::uint64_t{0}, record, number));
  int context = 0;
  ASSERT_EQ(post(true, purpose::user, &context), errorcode_t::done);
  EXPECT_TRUE(on_->take_done(~std::uint64_t{0}, record, number));
  EXPECT_EQ(record.context, &context);
  EXPECT_FALSE(on_->take_done(~std::uint64_t{0}, record, number));
}

}  // namespace
}  // namespace lci::ibv
