// The n-th allocation of whoever posts or makes progress fails, for every n: nothing is lost or
// damaged, nobody waits in vain, and what is told instead is std::bad_alloc. The fake network's own
// allocations do not fail.
#include <cstring>

#include "tests/unit/proto/no_memory_world.hpp"

using namespace lci::test;             // NOLINT: a test reads better without the prefix
using namespace lci::test::no_memory;  // NOLINT: likewise
namespace net = lci::net;
namespace proto = lci::proto;

namespace {

using lci::errorcode_t;
using lci::rcomp_t;
using lci::status_t;

sim_options signals_by_message() {
  sim_options options;
  options.caps.write_with_immediate = false;
  options.late = true;
  options.depth = 2;
  return options;
}

class messages : public testing::TestWithParam<std::tuple<std::size_t, bool>> {};

TEST_P(messages, arrive_all_the_same) {
  const auto [size, is_expected] = GetParam();
  for (const sim_options& options : {sim_options{}, signals_by_message(), card_options()}) {
    for_each_allocation([&, size = size, is_expected = is_expected](std::uint64_t n) {
      ranks w(options);
      std::vector<std::byte> from = pattern(size), to(size);
      counting sent, got;
      status_t at_once;
      errorcode_t answer = errorcode_t::retry;
      const std::size_t packets = w.packets_out();
      const fail_nth_new failing(n);
      const auto receive = [&] {
        answer = ranks::again([&] { return w[1].receive(0, to.data(), size, TAG, &got, at_once); });
      };
      if (is_expected) receive();
      const errorcode_t code = w.send(0, from.data(), size, w[1].engine_rcomp(), &sent);
      if (!is_expected) w.step(3);
      if (!is_expected) receive();
      w.until([&] {
        return (got.count == 1 || answer == errorcode_t::done) &&
               (sent.count == 1 || code == errorcode_t::done) && w.is_quiet();
      });
      EXPECT_TRUE(same(from, to));
      EXPECT_TRUE(w.thrown.empty()) << "nothing was lost";
      EXPECT_LE(got.count, 1);
      EXPECT_EQ(w.packets_out(), packets);
      return failing.fired();
    });
  }
}

INSTANTIATE_TEST_SUITE_P(all, messages,
                         testing::Combine(testing::ValuesIn(no_memory::SIZES), testing::Bool()));

TEST(no_memory, large_active_message__arrives_all_the_same) {
  for_each_allocation([](std::uint64_t n) {
    ranks w;
    std::vector<std::byte> from = pattern(LARGE);
    counting sent, got(true);
    const rcomp_t number = w[1].core.rcomps.add(&got);
    const fail_nth_new failing(n);
    w.send(0, from.data(), from.size(), number, &sent);
    w.until([&] { return got.count == 1 && sent.count == 1 && w.is_quiet(); });
    EXPECT_EQ(std::memcmp(got.last.buffer, from.data(), LARGE), 0);
    EXPECT_TRUE(w.thrown.empty());
    EXPECT_EQ(w[1].core.regions.live(), 0u);
    return failing.fired();
  });
}

// Every answer of the protocols meets a network that is full.
TEST(no_memory, crowded_network__nothing_is_lost) {
  constexpr std::size_t COUNT = 6;
  for_each_allocation([](std::uint64_t n) {
    ranks w(signals_by_message());
    std::vector<std::vector<std::byte>> to(COUNT, std::vector<std::byte>(LARGE));
    std::vector<std::byte> from = pattern(LARGE);
    counting sent, got;
    status_t at_once;
    const fail_nth_new failing(n);
    for (std::size_t i = 0; i < COUNT; ++i) {
      ranks::again([&] { return w[1].receive(0, to[i].data(), LARGE, TAG, &got, at_once); });
      proto::outgoing out = w[0].outgoing(1, from.data(), LARGE, w[1].engine_rcomp(), TAG, &sent);
      out.may_retry = false;
      ranks::again([&] { return proto::start_message(out); });
    }
    w.until([&] { return got.count == COUNT && sent.count == COUNT && w.is_quiet(); });
    for (const auto& each : to) EXPECT_TRUE(same(from, each));
    EXPECT_TRUE(w.thrown.empty());
    return failing.fired();
  });
}

// What may not be refused is kept for progress, or the post throws and nothing has happened.
TEST(no_memory, posts_that_are_not_refused__happen_once) {
  constexpr int COUNT = 5;
  for (const std::size_t size : {std::size_t{8}, std::size_t{3000}}) {
    for_each_allocation([size](std::uint64_t n) {
      sim_options small;
      small.depth = 1;
      ranks w(small);
      std::vector<std::byte> from = pattern(size);
      counting got(true);
      const rcomp_t number = w[1].core.rcomps.add(&got);
      const std::size_t packets = w.packets_out();
      const fail_nth_new failing(n);
      for (int i = 0; i < COUNT; ++i) {
        proto::outgoing out = w[0].outgoing(1, from.data(), size, number, TAG);
        out.may_retry = false;
        EXPECT_TRUE(ranks::again([&] {
          const errorcode_t code = proto::start_message(out);
          return lci::error_t(code).is_done();
        }));
      }
      w.until([&] { return got.count == COUNT && w.is_quiet(); });
      EXPECT_TRUE(w.thrown.empty());
      EXPECT_EQ(w.packets_out(), packets);
      return failing.fired();
    });
  }
}

// With comp_semantic network a message in a packet has a record beside it.
TEST(no_memory, bcopy_that_waits_for_the_network__keeps_no_packet) {
  for_each_allocation([](std::uint64_t n) {
    ranks w;
    std::vector<std::byte> from = pattern(3000);
    counting got(true), sent;
    const rcomp_t number = w[1].core.rcomps.add(&got);
    const std::size_t packets = w.packets_out();
    const fail_nth_new failing(n);
    proto::outgoing out = w[0].outgoing(1, from.data(), from.size(), number, TAG, &sent);
    out.wants_network = true;
    ranks::again([&] { return proto::start_message(out); });
    w.until([&] { return got.count == 1 && sent.count == 1 && w.is_quiet(); });
    EXPECT_EQ(w.packets_out(), packets);
    return failing.fired();
  });
}

class one_sided : public testing::TestWithParam<std::size_t> {};

TEST_P(one_sided, happen_once_and_are_told_once) {
  const std::size_t size = GetParam();
  for (const sim_options& options : {sim_options{}, signals_by_message(), card_options()}) {
    for_each_allocation([&](std::uint64_t n) {
      ranks w(options);
      std::vector<std::byte> from = pattern(size), to(size), back(size);
      counting put, got, told;
      const rcomp_t number = w[1].core.rcomps.add(&told);
      const net::remote_key key = w[1].expose(to.data(), size);
      const std::size_t packets = w.packets_out();
      const fail_nth_new failing(n);
      const auto post = [&](void* buffer, lci::comp_impl_t* comp, auto&& start, rcomp_t rcomp) {
        errorcode_t code = errorcode_t::retry;
        w.until([&] {
          proto::outgoing out = w[0].outgoing(1, buffer, size, rcomp, TAG, comp);
          out.remote = key;
          out.there = w[0].fabric->check_remote(1, key);
          if (out.there.what != net::remote_view::answer::ok) return false;
          code = ranks::again([&] { return start(out); });
          return !proto::is_retry(code);
        });
        return code;
      };
      const errorcode_t code = post(from.data(), &put, &proto::start_put, number);
      w.until([&] {
        return told.count == 1 && (put.count == 1 || code == errorcode_t::done) && w.is_quiet();
      });
      EXPECT_TRUE(same(from, to));
      post(back.data(), &got, &proto::start_get, 0);
      w.until([&] { return got.count == 1 && w.is_quiet(); });
      EXPECT_TRUE(same(from, back));
      EXPECT_EQ(told.count, 1);
      EXPECT_TRUE(w.thrown.empty());
      EXPECT_EQ(w.packets_out(), packets);
      return failing.fired();
    });
  }
}

INSTANTIATE_TEST_SUITE_P(all, one_sided, testing::ValuesIn(no_memory::SIZES));

}  // namespace
