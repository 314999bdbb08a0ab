// The protocols where some peers are reached over one network and some over another: each message
// goes as its own peer's network allows.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lci/net/route.hpp"
#include "tests/unit/proto/world.hpp"

namespace lci::test {
namespace {

using net::way;

// A base, so that they are there before the ranks.
struct two_sims {
  two_sims() : inside(3, inner_options()), between(3, outer_options()) {}
  static sim_options inner_options() {
    sim_options options;
    options.caps.needs_keys = false;
    return options;
  }
  // Without immediates, and in pieces, so that it shows who is taken for whom.
  sim_options outer_options() {
    sim_options options = card_options();
    options.caps.write_with_immediate = false;
    options.caps.max_rma = 4096;
    options.refuses_host = [this](int rank, std::uint64_t) {
      ++registered[static_cast<std::size_t>(rank)];
      return false;
    };
    return options;
  }
  std::array<int, 3> registered{};  // by rank: how often host memory was
  sim_world inside, between;
};

// Ranks 0 and 1 are on one host, 2 on another.
struct mixed_world : two_sims, nodes_world {
  mixed_world()
      : nodes_world(
            [this](int rank, const net::fabric_config& config) {
              std::vector<way> ways;
              for (int to = 0; to < 3; ++to)
                ways.push_back((to == 2) == (rank == 2) ? way::local : way::remote);
              return std::make_unique<net::routed_fabric>(inside.open(rank, config),
                                                          between.open(rank, config), ways);
            },
            3) {}
  void send(int to, std::size_t size) {
    const std::vector<std::byte> data = pattern(size, static_cast<unsigned>(size));
    std::vector<std::byte> got(size);
    recorder sender, receiver;
    auto out = (*this)[0].outgoing(to, const_cast<std::byte*>(data.data()), size,
                                   (*this)[to].engine_rcomp(), 5, &sender);
    status_t status;
    ASSERT_EQ((*this)[to].receive(0, got.data(), size, 5, &receiver, status), errorcode_t::posted);
    errorcode_t answer = proto::start_message(out);
    for (int i = 0; i < 100 && error_t(answer).is_retry(); ++i) {
      step(1);
      answer = proto::start_message(out);
    }
    ASSERT_TRUE(error_t(answer).is_done() || error_t(answer).is_posted()) << size;
    step();
    EXPECT_EQ(sender.seen.size(), error_t(answer).is_posted() ? 1u : 0u) << size;
    ASSERT_EQ(receiver.seen.size(), 1u) << size;
    EXPECT_EQ(got, data) << size << " to " << to;
  }
};

TEST(mixed_networks, messages_of_all_sizes__arrive_on_both) {
  mixed_world w;
  for (const std::size_t size : {std::size_t{0}, std::size_t{8}, std::size_t{64}, std::size_t{70},
                                 std::size_t{88}, std::size_t{4000}, std::size_t{9000}, LARGE})
    for (const int to : {0, 1, 2}) w.send(to, size);
  for (int rank = 0; rank < 3; ++rank) EXPECT_TRUE(w[rank].queues->is_drained()) << rank;
  EXPECT_TRUE(w.thrown.empty());
}

// Registration with a card costs more than the message.
TEST(mixed_networks, large_message_inside_the_host__registers_nothing_and_tells_no_target) {
  mixed_world w;
  w.send(1, LARGE);
  EXPECT_THAT(w.registered, testing::ElementsAre(0, 0, 0));
  w.send(2, LARGE);
  EXPECT_THAT(w.registered, testing::ElementsAre(1, 0, 1));
  EXPECT_EQ(w.between.counters().told, (LARGE - 1) / 4096 + 1);
  EXPECT_EQ(w.inside.counters().told, 0u);
  for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(w.between.registrations(rank), 0u) << rank;
}

TEST(mixed_networks, put_that_is_signalled__arrives_before_its_signal_on_both) {
  mixed_world w;
  for (const int to : {1, 2}) {
    std::vector<std::byte> there(LARGE);
    std::vector<std::byte> data = pattern(LARGE, 9);
    recorder told, poster;
    const rcomp_t rcomp = w[to].core.rcomps.add(&told);
    const net::remote_key name = w[to].expose(there.data(), there.size());
    auto out = w[0].outgoing(to, data.data(), data.size(), rcomp, 3, &poster);
    out.remote = name;
    for (int i = 0; i < 100; ++i) {
      out.there = w[0].fabric->check_remote(to, name);
      if (out.there.what == net::remote_view::answer::ok) break;
      w.step(1);
    }
    ASSERT_EQ(proto::start_put(out), errorcode_t::posted);
    w.step();
    EXPECT_EQ(poster.seen.size(), 1u);
    ASSERT_EQ(told.seen.size(), 1u) << to;
    EXPECT_EQ(there, data);
    w[to].core.rcomps.remove(rcomp);
  }
}

}  // namespace
}  // namespace lci::test
