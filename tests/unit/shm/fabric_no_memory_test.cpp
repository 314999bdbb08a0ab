// The n-th allocation of whoever polls or posts fails, for every n: nothing is lost, it comes
// later.
#include <gtest/gtest.h>

#include <chrono>

#include "tests/support/failing_new/each_allocation.hpp"
#include "tests/unit/shm/pair.hpp"

namespace lci::shm {
namespace {

using lci::test::fail_nth_new;
using lci::test::for_each_allocation;
using test::pair;
using test::pattern;

// Counts, and asks nobody for memory.
struct counts final : net::sink {
  int messages = 0, completed = 0, errors = 0, gone = 0, orderly = 0;
  net::verdict on_message(const net::arrival&) noexcept override {
    ++messages;
    return net::verdict::taken;
  }
  void on_immediate(int, std::uint32_t) noexcept override {}
  void on_complete(void*) noexcept override { ++completed; }
  void on_error(int, void*, std::string_view) noexcept override { ++errors; }
  void on_peer_ended(int, bool is_orderly, std::string_view) noexcept override {
    ++gone;
    orderly += is_orderly;
  }
};

struct world {
  explicit world(net::fabric_config config = {}) : p(config) {}
  // Polls both sides until done(), while an allocation fails. True: one has.
  template <class Done>
  bool fires_until(std::uint64_t n, Done&& done) {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    const fail_nth_new failing(n);
    while (!done() && std::chrono::steady_clock::now() < limit) {
      p.a.dev->poll(a, 64);
      if (p.b.dev) p.b.dev->poll(b, 64);
    }
    EXPECT_LT(std::chrono::steady_clock::now(), limit) << "waited in vain";
    return failing.fired();
  }
  bool is_met() {
    return p.a.net->check_remote(1, {}).what == net::remote_view::answer::unknown_key;
  }
  pair p;
  counts a, b;
};

net::net_op op_for(void* buffer, std::size_t size, net::remote_key key, void* context) {
  net::net_op o;
  o.rank = 1;
  o.buffer = buffer;
  o.size = size;
  o.remote = key;
  o.context = context;
  return o;
}

TEST(no_memory, first_contact__happens_all_the_same) {
  for_each_allocation([](std::uint64_t n) {
    world w;
    const std::string text = "hello";
    bool is_said = false;
    const bool fired = w.fires_until(n, [&] {
      if (!is_said) is_said = w.p.a.say(1, text) == errorcode_t::done;
      return w.b.messages == 1 && w.is_met();
    });
    EXPECT_EQ(w.a.gone + w.b.gone, 0);
    EXPECT_EQ(w.p.b.net->connections().dropped(), 0u);
    return fired;
  });
}

TEST(no_memory, both_call_at_once__and_meet) {
  for_each_allocation([](std::uint64_t n) {
    world w;
    const std::string text = "hello";
    bool a_said = false, b_said = false;
    const bool fired = w.fires_until(n, [&] {
      if (!a_said) a_said = w.p.a.say(1, text) == errorcode_t::done;
      if (!b_said) b_said = w.p.b.say(0, text) == errorcode_t::done;
      return w.a.messages == 1 && w.b.messages == 1;
    });
    EXPECT_EQ(w.a.gone + w.b.gone, 0);
    return fired;
  });
}

struct move {
  const char* name;
  errorcode_t (net::endpoint::*post)(const net::net_op&) noexcept;
  bool is_get;
};

class large_moves : public testing::TestWithParam<move> {};

TEST_P(large_moves, are_posted_or_refused__and_end_once) {
  const std::string text = pattern(bulk_stream::WINDOW + 1000, 1);
  for_each_allocation([&](std::uint64_t n) {
    net::fabric_config pipelined;
    pipelined.shm_single_copy = false;
    world w(pipelined);
    pair& p = w.p;
    p.meet();
    std::string here = GetParam().is_get ? std::string(text.size(), 0) : text;
    std::string there = GetParam().is_get ? text : std::string(text.size(), 0);
    int context = 0;
    net::net_op op =
        op_for(here.data(), here.size(), p.b.expose(there.data(), there.size()), &context);
    op.imm = 7;
    bool is_posted = false;
    const bool fired = w.fires_until(n, [&] {
      if (!is_posted) {
        const errorcode_t answer = (p.a.out.get()->*GetParam().post)(op);
        is_posted = answer == errorcode_t::posted;
        EXPECT_NE(answer, errorcode_t::done);
        EXPECT_NE(answer, errorcode_t::fatal);
      }
      return w.a.completed != 0;
    });
    EXPECT_EQ(w.a.completed, 1);
    EXPECT_EQ(w.a.errors, 0);
    EXPECT_EQ(here, text);
    EXPECT_EQ(there, text);
    EXPECT_TRUE(p.a.dev->is_drained());
    EXPECT_EQ(p.a.regions.live(), 0u);
    return fired;
  });
}

INSTANTIATE_TEST_SUITE_P(all, large_moves,
                         testing::Values(move{"put", &net::endpoint::put, false},
                                         move{"put_imm", &net::endpoint::put_imm, false},
                                         move{"get", &net::endpoint::get, true}),
                         [](const auto& one) { return one.param.name; });

TEST(no_memory, a_put_of_a_kib__goes_another_way_or_is_refused_until_it_is_posted_again) {
  const std::string text = pattern(1024, 1);
  for_each_allocation([&](std::uint64_t n) {
    world w;
    w.p.meet();
    std::string there(text.size(), 0);
    net::net_op op = op_for(const_cast<char*>(text.data()), text.size(),
                            w.p.b.expose(there.data(), there.size()), nullptr);
    bool is_posted = false;
    const bool fired = w.fires_until(n, [&] {
      if (!is_posted) {
        const errorcode_t answer = w.p.a.out->put_imm(op);
        is_posted = answer == errorcode_t::done || answer == errorcode_t::posted;
        EXPECT_TRUE(is_posted || answer == errorcode_t::retry_nomem);
      }
      return is_posted && there == text;
    });
    EXPECT_EQ(w.a.errors, 0);
    return fired;
  });
}

TEST(no_memory, end_of_a_peer__is_told_once_with_its_operations) {
  std::string text = pattern(4 * bulk_stream::WINDOW, 2);
  for_each_allocation([&](std::uint64_t n) {
    world w;
    pair& p = w.p;
    p.meet();
    EXPECT_EQ(p.b.say(0, "hello"), errorcode_t::done);
    std::string there(text.size(), 0), got(text.size(), 0);
    const net::remote_key key = p.b.expose(there.data(), there.size());
    int put = 0, get = 0;
    EXPECT_EQ(p.a.out->put(op_for(text.data(), text.size(), key, &put)), errorcode_t::posted);
    EXPECT_EQ(p.a.out->get(op_for(got.data(), got.size(), key, &get)), errorcode_t::posted);
    p.b.close();
    const bool fired =
        w.fires_until(n, [&] { return w.a.gone == 1 && w.a.errors + w.a.completed == 2; });
    EXPECT_EQ(w.a.messages, 1) << "what it said before";
    EXPECT_EQ(w.a.orderly, 0);
    EXPECT_EQ(p.a.regions.live(), 0u);
    return fired;
  });
}

}  // namespace
}  // namespace lci::shm
