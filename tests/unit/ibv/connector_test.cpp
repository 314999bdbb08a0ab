#include "backends/ibv/connector.hpp"

#include "backends/ibv/wire.hpp"
#include "lci/errors.hpp"
#include "tests/unit/ibv/world.hpp"

namespace lci::ibv {
namespace {

constexpr std::uint32_t QKEY = 0x6c6369;

class connector_test : public on_a_card {
 protected:
  static void poll(test::group& g, int times) {
    for (int i = 0; i < times; ++i) g.poll();
  }
  // What rank 1 says to rank 0, whose address is `to`, before they are connected.
  hello first_hello(fabric_address& to) {
    fabric_address peer;
    EXPECT_TRUE(fabric_address::parse(at(0).address(), to));
    EXPECT_TRUE(fabric_address::parse(at(1).address(), peer));
    hello out;
    out.to = to.id;
    out.from = peer.id;
    out.rank = 1;
    out.qpn = 0xabcd;
    out.where = to.where;
    return out;
  }
};

// Notes who is looked up: that is what makes a process say once which way it reaches whom.
class noting_book final : public net::address_book {
 public:
  explicit noting_book(net::address_book& of) : of_(of) {}
  int rank() const noexcept override { return of_.rank(); }
  int size() const noexcept override { return of_.size(); }
  std::string lookup(int rank) override {
    asked.push_back(rank);
    return of_.lookup(rank);
  }
  std::vector<int> asked;

 private:
  net::address_book& of_;
};

// Speaks to a connector as a peer or a stranger would.
class stranger {
 public:
  explicit stranger(const fabric_address& to) : to_(to), port_(open_best_port({})) {
    const verbs& v = library();
    pd_.reset(v.alloc_pd(port_.context.get()));
    cq_.reset(v.create_cq(port_.context.get(), 64, nullptr, nullptr, 0));
    ibv_qp_init_attr made{};
    made.send_cq = made.recv_cq = cq_.get();
    made.qp_type = IBV_QPT_UD;
    made.cap = {16, 16, 1, 1, 200};
    qp_.reset(v.create_qp(pd_.get(), &made));
    ibv_qp_attr attr{};
    attr.port_num = 1;
    attr.qkey = QKEY;
    attr.qp_state = IBV_QPS_INIT;
    v.modify_qp(qp_.get(), &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY);
    attr.qp_state = IBV_QPS_RTR;
    v.modify_qp(qp_.get(), &attr, IBV_QP_STATE);
    attr.qp_state = IBV_QPS_RTS;
    v.modify_qp(qp_.get(), &attr, IBV_QP_STATE | IBV_QP_SQ_PSN);
    ibv_ah_attr path{};
    path.is_global = 1;
    path.port_num = 1;
    std::memcpy(path.grh.dgid.raw, to.where.gid, 16);
    ah_.reset(v.create_ah(pd_.get(), &path));
  }
  int say(const void* what, std::size_t size) {
    ibv_sge part{reinterpret_cast<std::uint64_t>(what), static_cast<std::uint32_t>(size), 0};
    ibv_send_wr wr{};
    wr.sg_list = &part;
    wr.num_sge = 1;
    wr.opcode = IBV_WR_SEND;
    wr.send_flags = IBV_SEND_INLINE | IBV_SEND_SIGNALED;
    wr.wr.ud = {ah_.get(), to_.qpn, QKEY};
    ibv_send_wr* bad = nullptr;
    const int rc = ibv_post_send(qp_.get(), &wr, &bad);
    ibv_wc done;
    ibv_poll_cq(cq_.get(), 1, &done);
    return rc;
  }
  int say(const hello& what) { return say(&what, sizeof(what)); }

 private:
  const fabric_address to_;
  chosen_port port_;
  pd_handle pd_;
  cq_handle cq_;
  qp_handle qp_;
  ah_handle ah_;
};

TEST_F(connector_test, lookup__at_the_first_message_and_not_again) {
  std::vector<std::unique_ptr<noting_book>> books;
  auto g = open(2, 2, [&](net::fabric_config& config) {
    books.push_back(std::make_unique<noting_book>(*config.book));
    config.book = books.back().get();
  });
  poll(*g, 100);
  for (const auto& book : books) EXPECT_EQ(book->asked, std::vector<int>{});
  for (int i = 0; i < 5; ++i) meet(*g, 0, 1);
  EXPECT_EQ(books.at(0)->asked, std::vector<int>{1});
  EXPECT_EQ(books.at(1)->asked, std::vector<int>{0});
}

TEST_F(connector_test, datagrams__lost_repeated_and_late_ones_delay_it_and_no_more) {
  for (const auto& [lose, repeat, hold] :
       {std::tuple{2u, 0u, 0u}, {0u, 1u, 0u}, {0u, 0u, 2u}, {2u, 2u, 2u}}) {
    for (unsigned seed = 1; seed <= 5; ++seed) {
      test::fake_ibv_config config = datagrams(lose, repeat, hold);
      config.order_seed = seed;
      card().reset(config);
      auto g = open(3);
      meet(*g, 0, 1);
      meet(*g, 1, 2);
      EXPECT_EQ(card().live().qps, 3u + 4u) << "one queue pair at each end";
    }
  }
}

TEST_F(connector_test, datagrams__all_lost_and_then_none) {
  auto g = open(2);
  card().change(datagrams(1, 0, 0));
  for (int i = 0; i < 5000; ++i) {
    EXPECT_EQ(send(*g, 0, 1), errorcode_t::retry_nomem);
    g->poll();
  }
  card().change({});
  meet(*g, 0, 1);
}

// The bootstrap, say, knows that it died; here it is called and does not answer.
TEST_F(connector_test, rank_that_is_reported_as_failed__is_not_called_any_more) {
  auto g = open(2);
  card().change(datagrams(1, 0, 0));
  EXPECT_EQ(send(*g, 0, 1), errorcode_t::retry_nomem);
  net::peer_table& peers = g->at(0).peers;
  ASSERT_TRUE(g->until([&] { return peers.state(1) == net::peer_state::connecting; }, "a call"));
  peers.report(1, net::peer_event::fail, "it died");
  ASSERT_TRUE(g->until([&] { return !g->at(0).seen().gone().empty(); }, "the end of the calls"));
  EXPECT_FALSE(g->at(0).seen().gone().front().orderly);
  EXPECT_EQ(send(*g, 0, 1), errorcode_t::fatal);
  EXPECT_EQ(peers.reason(1), "it died");
}

TEST_F(connector_test, rank_that_is_reported_as_failed__what_it_has_sent_comes_before_its_end) {
  auto g = open(2);
  expect_the_message_before_the_end(
      *g, [] { card().change(datagrams(1, 0, 0)); }, event_queue::LOOK_MS);
  card().change({});
}

TEST_F(connector_test, both_sides_at_once__make_one_connection) {
  auto g = open(2);
  for (int i = 0; i < 10000 && (send(*g, 0, 1) != errorcode_t::done); ++i) {
    (void)send(*g, 1, 0);
    g->poll();
  }
  meet(*g, 0, 1);
  EXPECT_EQ(card().live().qps, 2u + 2u);
}

TEST_F(connector_test, peer_without_that_device__is_called_again) {
  auto g = open(2);
  g->at(0).add_device(1);
  const std::uint32_t word = 7;
  const auto post = [&] {
    return g->at(0).to(1).send_inline(1, 7, nullptr, 0, &word, sizeof(word));
  };
  for (int i = 0; i < 2000; ++i) {
    EXPECT_EQ(post(), errorcode_t::retry_nomem);
    g->poll();
  }
  g->at(1).add_device(1);
  g->post(post);
  ASSERT_TRUE(g->until([&] { return g->at(1).seen(1).arrived() == 1; }, "the message"));
}

TEST_F(connector_test, strangers__are_not_answered) {
  auto g = open(2);
  fabric_address here;
  hello good = first_hello(here);
  good.flags = net::connected::hello_flags::WANTS_ANSWER;
  good.reads = 16;
  stranger them(here);
  const std::size_t before = card().live().qps;
  const auto is_ignored = [&](const hello& what) {
    EXPECT_EQ(them.say(what), 0);
    poll(*g, 200);
    return card().live().qps == before;
  };
  hello wrong = good;
  wrong.to ^= 1;  // for a fabric that was here before
  EXPECT_TRUE(is_ignored(wrong));
  wrong = good;
  wrong.from ^= 1;  // from one that was there before
  EXPECT_TRUE(is_ignored(wrong));
  for (const int rank : {-1, 0, 2, 1 << 30}) {
    wrong = good;
    wrong.rank = rank;
    EXPECT_TRUE(is_ignored(wrong)) << rank;
  }
  wrong = good;
  wrong.device = 5;
  EXPECT_TRUE(is_ignored(wrong));
  wrong.device = ~0u;
  EXPECT_TRUE(is_ignored(wrong));
  wrong = good;
  wrong.version = 9;
  EXPECT_TRUE(is_ignored(wrong));
  EXPECT_EQ(them.say(&good, sizeof(good) - 1), 0);
  EXPECT_EQ(them.say(&good, 0), 0);
  poll(*g, 200);
  EXPECT_EQ(card().live().qps, before);
  // And the one that is right is: the test would see it.
  EXPECT_FALSE(is_ignored(good));
}

// What was late and names another queue pair than the one that is connected changes nothing.
TEST_F(connector_test, hello_of_another_queue_pair__does_not_touch_the_connection) {
  auto g = open(2);
  meet(*g, 0, 1);
  fabric_address here;
  hello late = first_hello(here);
  late.directory_key = 77;
  stranger them(here);
  EXPECT_EQ(them.say(late), 0);
  poll(*g, 200);
  meet(*g, 0, 1);
  std::vector<std::byte> there(64);
  const net::remote_key key = g->at(1).expose(there.data(), there.size());
  g->learn(0, 1, key);
  g->at(1).hide(key);
}

// Many hellos at once, each of which fails to connect: no receive for datagrams is lost by that.
TEST_F(connector_test, failing_connections__do_not_make_it_deaf) {
  auto g = open(2);
  fabric_address here;
  hello one = first_hello(here);
  stranger them(here);
  const std::size_t receives = card().posted_receives();
  card().fail_nth("ibv_create_qp", 1, ENOMEM, 1 << 20);
  card().fail_nth("post_recv", 7, ENOMEM, 3);
  for (int round = 0; round < 40; ++round) {
    for (int i = 0; i < 16; ++i) EXPECT_EQ(them.say(one), 0);
    for (int i = 0; i < 200; ++i) g->at(0).poll();
  }
  EXPECT_EQ(card().posted_receives(), receives);
  card().reset_failures();
  meet(*g, 1, 0);
}

// Its number is in the addresses that peers know.
TEST_F(connector_test, queue_of_hellos__that_breaks_is_started_again) {
  auto g = open(2);
  const std::size_t receives = card().posted_receives();
  card().fail_nth("ibv_modify_qp", 1, ENOMEM);  // and once more then
  card().break_datagrams(0);
  poll(*g, 200);
  EXPECT_EQ(card().posted_receives(), receives);
  meet(*g, 0, 1);
}

// Nobody can be called for a while, and whoever was called meanwhile is given up; others are not.
TEST_F(connector_test, address__that_the_card_refuses_for_good_is_an_error) {
  auto g = open(4);
  EXPECT_EQ(send(*g, 0, 1), errorcode_t::retry_nomem);
  card().fail_nth("ibv_create_ah", 1, EINVAL, 1 << 30);
  ASSERT_TRUE(until_gone(*g, 0));
  EXPECT_EQ(send(*g, 0, 1), errorcode_t::fatal);
  EXPECT_FALSE(g->at(0).seen().gone()[0].orderly);
  EXPECT_NE(g->at(0).seen().gone()[0].reason.find("ibv_create_ah"), std::string::npos)
      << g->at(0).seen().gone()[0].reason;
  card().reset_failures();
  meet(*g, 0, 2);
  EXPECT_EQ(g->at(0).seen().gone().size(), 1u);
}

// Both have made their ends, and neither can connect it to the other one. Who gives up first says
// so to the other, who would call for ever.
TEST_F(connector_test, queue_pairs__that_do_not_connect_for_good_are_an_error) {
  auto g = open(2);
  card().change(datagrams(1, 0, 0));
  for (const auto& [from, to] : {std::pair{0, 1}, {1, 0}}) {
    EXPECT_EQ(send(*g, from, to), errorcode_t::retry_nomem);
    g->at(from).poll();
  }
  ASSERT_EQ(card().live().qps, 4u);
  card().fail_nth("ibv_modify_qp", 1, EINVAL, 1 << 30);
  card().change({});
  int reasons = 0;
  for (const int rank : {0, 1}) {
    ASSERT_TRUE(until_gone(*g, rank));
    const test::seen_gone gone = g->at(rank).seen().gone()[0];
    if (gone.reason.find("ready-to-receive") != std::string::npos) ++reasons;
    EXPECT_EQ(send(*g, rank, 1 - rank), errorcode_t::fatal);
  }
  EXPECT_GE(reasons, 1);
  card().reset_failures();
  g->settle();
  for (const int rank : {0, 1}) EXPECT_EQ(g->at(rank).seen().gone().size(), 1u);
}

// Wherever an address is taken from the wrong side or card, nothing arrives.
TEST_F(connector_test, addresses__of_cards_that_differ) {
  struct {
    std::uint8_t layer;
    bool wants_gid;
  } const table[] = {{IBV_LINK_LAYER_ETHERNET, false},
                     {IBV_LINK_LAYER_INFINIBAND, false},
                     {IBV_LINK_LAYER_INFINIBAND, true}};
  for (const auto& line : table) {
    test::fake_ibv_config config;
    config.devices = test::fake_cards(2);
    for (std::size_t i = 0; i < 2; ++i) {
      test::fake_port& port = config.devices[i].ports[0];
      port.link_layer = line.layer;
      port.lid = static_cast<std::uint16_t>(5 + 4 * i);
    }
    card().reset(config);
    int rank = 0;
    auto g = open(2, 1, [&](net::fabric_config& wanted) {
      wanted.device_name = "fake_" + std::to_string(rank);
      wanted.ibv_wants_gid = line.wants_gid;
      // Two of one kind.
      if (line.layer == IBV_LINK_LAYER_ETHERNET) wanted.ibv_gid_index = rank == 0 ? 1 : 3;
      ++rank;
    });
    meet(*g, 0, 1);
    EXPECT_EQ(card().connections().size(), 2u);
  }
}

// A card drops what it is asked beyond what it serves at once.
TEST_F(connector_test, reads_at_once__what_one_asks_for_the_other_serves) {
  struct {
    int serves[2], asks[2];
    unsigned served[2], asked[2];
  } const table[] = {{{4, 6}, {12, 16}, {4, 6}, {6, 4}},
                     {{16, 5}, {3, 16}, {16, 5}, {3, 16}},
                     {{64, 64}, {64, 64}, {16, 16}, {16, 16}}};
  for (const auto& line : table) {
    test::fake_ibv_config config;
    config.devices = test::fake_cards(2);
    for (std::size_t i = 0; i < 2; ++i) {
      config.devices[i].max_qp_rd_atom = line.serves[i];
      config.devices[i].max_qp_init_rd_atom = line.asks[i];
    }
    card().reset(config);
    int rank = 0;
    auto g = open(2, 1, [&](net::fabric_config& wanted) {
      wanted.device_name = "fake_" + std::to_string(rank++);
    });
    meet(*g, 0, 1);
    const auto made = card().connections();
    ASSERT_EQ(made.size(), 2u);
    for (const test::fake_connection& one : made) {
      const std::size_t i = one.device == "fake_0" ? 0 : 1;
      EXPECT_EQ(one.reads_served, line.served[i]) << one.device;
      EXPECT_EQ(one.reads_asked, line.asked[i]) << one.device;
      EXPECT_LE(one.reads_asked, line.served[1 - i]) << one.device;
    }
  }
}

TEST_F(connector_test, patience__outside_of_what_cards_know_is_refused) {
  for (const auto& [name, value] : {std::pair{"LCI_IBV_TIMEOUT", "0"},
                                    {"LCI_IBV_TIMEOUT", "32"},
                                    {"LCI_IBV_TIMEOUT", "5x"},
                                    {"LCI_IBV_RETRY", "8"},
                                    {"LCI_IBV_RETRY", "-1"}}) {
    test::scoped_env environment;
    environment.set(name, value);
    try {
      patience::from_environment();
      ADD_FAILURE() << name << '=' << value;
    } catch (const argument_error& problem) {
      EXPECT_NE(std::string(problem.what()).find(name), std::string::npos) << problem.what();
    }
  }
  EXPECT_EQ(patience::from_environment().timeout, 8);
  EXPECT_EQ(patience::from_environment().retries, 1);
}

}  // namespace
}  // namespace lci::ibv
