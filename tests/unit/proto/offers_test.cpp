// Receives that are offered to their senders: who gets them, in which order, and what forged or
// late messages about them do.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <random>

#include "lci/errors.hpp"
#include "lci/proto/arrival.hpp"
#include "tests/unit/proto/gpu_world.hpp"

using namespace lci::test;  // NOLINT: a test reads better without the prefix
namespace proto = lci::proto;
namespace wire = lci::proto::wire;
using lci::mem::mem_kind;
using wire::staged_kind;

namespace {

constexpr std::size_t ROOM = 20'000;

// A message or a receive of rank 0's messages to rank 1, with a buffer of its own.
struct end {
  explicit end(mem_kind kind, std::size_t size = ROOM) : buffer(kind, size) {}
  test_buffer buffer;
  recorder told;
};

class offers : public testing::Test {
 protected:
  static gpu_options options() {
    gpu_options o;
    o.sim.maps_arenas = true;
    return o;
  }
  explicit offers(const gpu_options& o = options()) : w(o) {}

  std::unique_ptr<end> receive(mem_kind kind, lci::tag_t tag, std::size_t size = ROOM,
                               int from = 0) {
    auto made = std::make_unique<end>(kind, size);
    proto::receive& record = *w[1].core.receives.get();
    record.user = {};
    record.user.comp = &made->told;
    record.user.status.buffer = made->buffer.at();
    record.user.status.size = size;
    record.via = w[1].channel.get();
    record.region = {};
    record.kind = kind;
    record.gpu = kind == mem_kind::device ? 0 : -1;
    lci::status_t got;
    if (w[1].matcher->post(record, from, tag, lci::matching_policy_t::rank_tag, got) ==
        lci::errorcode_t::done)
      made->told.signal(got);
    return made;
  }
  // The receive needs nothing of `size` bytes: its contents say which message it is.
  std::unique_ptr<end> send(mem_kind kind, lci::tag_t tag, unsigned seed, std::size_t size) {
    auto made = std::make_unique<end>(kind, size);
    made->buffer.fill(seed);
    for (;;) {
      auto out = w[0].outgoing(1, made->buffer.at(), size, w[1].engine_rcomp(), tag, &made->told);
      out.kind = kind;
      out.gpu = kind == mem_kind::device ? 0 : -1;
      const std::size_t asking = w[0].channel->rendezvous.sends.size();
      const lci::error_t answer{proto::start_message(out)};
      if (kind == mem_kind::device && answer.is_posted() &&
          w[0].channel->rendezvous.sends.size() == asking)
        ++claims;
      if (!answer.is_retry()) break;
      w.step(1);
    }
    return made;
  }
  void step_sender(int rounds = 20) {
    for (int i = 0; i < rounds; ++i) w.step_one(0);
  }
  static bool holds(const end& receive, unsigned seed, std::size_t size) {
    test_buffer wanted(mem_kind::host, size);
    wanted.fill(seed);
    return receive.told.seen.size() == 1 && receive.told.seen[0].size == size &&
           std::memcmp(receive.buffer.bytes(), wanted.bytes(), size) == 0;
  }
  void encourage() { w[1].channel->offered.encourage(0); }
  std::uint64_t messages() { return w.sim.counters().messages; }
  void expect_clean() {
    w.step(100);
    EXPECT_TRUE(w.thrown.empty()) << w.errors();
    w.expect_clean(0);
    w.expect_clean(1);
  }
  // Rank `from` sends rank `to` a message about offers.
  template <class Body>
  void tell(int from, int to, staged_kind what, const Body& body) {
    proto::arrival_sink sink(*w[to].channel);
    sink.on_message({from, wire::staged_imm(what), reinterpret_cast<const std::byte*>(&body),
                     sizeof(body), nullptr});
  }

  gpu_world w;
  std::size_t claims = 0;
};

}  // namespace

TEST_F(offers, send_that_finds_one__needs_nothing_of_its_receiver) {
  exchange first(w, verb::send, mem_kind::device, mem_kind::device, 5000);
  first.start();
  step_sender();
  EXPECT_FALSE(first.there.holds(first.seed)) << "the first request has to be answered";
  EXPECT_TRUE(w.step_until([&] { return first.is_over(); }));
  const auto there = receive(mem_kind::device, 7);
  step_sender();
  const auto here = send(mem_kind::device, 7, 3, 5000);
  step_sender();
  EXPECT_EQ(here->told.seen.size(), 1u);
  EXPECT_TRUE(there->told.seen.empty());
  w.step(5);
  EXPECT_TRUE(holds(*there, 3, 5000));
  EXPECT_EQ(there->told.seen[0].rank, 0);
  EXPECT_EQ(there->told.seen[0].tag, 7u);
  EXPECT_EQ(there->told.seen[0].buffer, there->buffer.at());
  EXPECT_EQ(claims, 1u);
  expect_clean();
}

TEST_F(offers, message_that_comes_first__takes_the_receive_and_the_claim_the_next) {
  encourage();
  const auto r1 = receive(mem_kind::device, 7), r2 = receive(mem_kind::device, 7);
  step_sender();
  const auto a = send(mem_kind::host, 7, 1, 100);
  const auto b = send(mem_kind::device, 7, 2, 6000);
  EXPECT_EQ(claims, 0u) << "the first message is still on its way";
  w.step(50);
  EXPECT_TRUE(holds(*r1, 1, 100));
  EXPECT_TRUE(holds(*r2, 2, 6000));
  expect_clean();
}

TEST_F(offers, stale_one__is_passed_over_for_the_next) {
  encourage();
  const auto r1 = receive(mem_kind::device, 7), r2 = receive(mem_kind::device, 7);
  step_sender();
  const auto a = send(mem_kind::host, 7, 1, 100);
  w.step(50);
  const auto b = send(mem_kind::device, 7, 2, 6000);
  EXPECT_EQ(claims, 1u);
  w.step(50);
  EXPECT_TRUE(holds(*r1, 1, 100));
  EXPECT_TRUE(holds(*r2, 2, 6000));
  expect_clean();
}

// The message is taken up by the receiver when the claim has been made and not been told.
TEST_F(offers, claim_that_was_faster__leaves_the_message_the_next_receive) {
  encourage();
  const auto r1 = receive(mem_kind::device, 7), r2 = receive(mem_kind::device, 7);
  step_sender();
  const auto b = send(mem_kind::device, 7, 2, 6000);
  EXPECT_EQ(claims, 1u);
  const std::byte data[100] = {};
  EXPECT_EQ(w[1].matcher->on_eager(*w[1].channel, {.rank = 0}, data, sizeof(data), 7,
                                   lci::matching_policy_t::rank_tag),
            lci::net::verdict::taken);
  w.step(50);
  EXPECT_TRUE(holds(*r1, 2, 6000));
  EXPECT_EQ(r2->told.seen.size(), 1u);
  EXPECT_EQ(r2->told.seen[0].size, sizeof(data));
  expect_clean();
}

TEST_F(offers, receive_that_nobody_offers__is_used_before_later_ones) {
  encourage();
  const auto host = receive(mem_kind::host, 7);
  const auto gpu = receive(mem_kind::device, 7), other = receive(mem_kind::device, 8);
  step_sender();
  const auto a = send(mem_kind::device, 7, 1, 3000);
  const auto b = send(mem_kind::device, 8, 2, 3000);
  const auto c = send(mem_kind::device, 7, 3, 3000);
  w.step(50);
  EXPECT_TRUE(holds(*host, 1, 3000));
  EXPECT_TRUE(holds(*other, 2, 3000));
  EXPECT_TRUE(holds(*gpu, 3, 3000));
  EXPECT_LE(claims, 1u) << "only the receive of the other tag may be claimed";
  expect_clean();
}

TEST_F(offers, receive_with_a_wildcard_that_waits__is_used_before) {
  encourage();
  const auto any = receive(mem_kind::host, 7, ROOM, lci::ANY_SOURCE);
  const auto exact = receive(mem_kind::device, 7);
  step_sender();
  const auto a = send(mem_kind::device, 7, 1, 3000);
  EXPECT_EQ(claims, 0u);
  w.step(50);
  const auto b = send(mem_kind::device, 7, 2, 3000);
  w.step(50);
  EXPECT_TRUE(holds(*any, 1, 3000));
  EXPECT_TRUE(holds(*exact, 2, 3000));
  expect_clean();
}

TEST_F(offers, message_that_is_too_large__is_the_error_that_it_always_is) {
  encourage();
  const auto small = receive(mem_kind::device, 7, 100), large = receive(mem_kind::device, 7);
  step_sender();
  const auto a = send(mem_kind::device, 7, 1, 3000);
  EXPECT_EQ(claims, 0u);
  w.step(50);
  ASSERT_EQ(w.thrown.size(), 1u);
  EXPECT_THROW(std::rethrow_exception(w.thrown[0]), lci::truncation_error);
  w.thrown.clear();
  EXPECT_TRUE(small->told.seen.empty());
  EXPECT_TRUE(holds(*large, 1, 3000));
  expect_clean();
}

TEST_F(offers, more_receives_than_can_be_offered__are_used_in_their_order) {
  encourage();
  std::vector<std::unique_ptr<end>> receives, sends;
  for (std::size_t i = 0; i < 2 * proto::offers::OPEN; ++i)
    receives.push_back(receive(mem_kind::device, 7));
  step_sender();
  for (std::size_t i = 0; i < receives.size(); ++i) {
    sends.push_back(send(mem_kind::device, 7, static_cast<unsigned>(i), 3000));
    if (i % 3 == 0) w.step(2);
    // New receives wait behind those that were never offered.
    if (i < 8) receives.push_back(receive(mem_kind::device, 7));
  }
  for (std::size_t i = sends.size(); i < receives.size(); ++i)
    sends.push_back(send(mem_kind::device, 7, static_cast<unsigned>(i), 3000));
  w.step(200);
  for (std::size_t i = 0; i < receives.size(); ++i)
    EXPECT_TRUE(holds(*receives[i], static_cast<unsigned>(i), 3000)) << i;
  EXPECT_GE(claims, proto::offers::OPEN);
  expect_clean();
}

TEST_F(offers, that_nobody_uses__are_made_no_more) {
  encourage();
  std::size_t told = 0;
  for (int i = 0; i < 6; ++i) {
    const auto before = messages();
    const auto there = receive(mem_kind::device, 7);
    told += messages() - before;
    const auto here = send(mem_kind::host, 7, 1, 100);
    w.step(30);
    EXPECT_TRUE(holds(*there, 1, 100));
  }
  EXPECT_EQ(told, 2u);
  // Now and then a request brings a new attempt.
  std::size_t again = 0;
  for (int i = 0; i < 40; ++i) {
    exchange one(w, verb::send, mem_kind::device, mem_kind::device, 100);
    const auto before = messages();
    one.receive();
    again += messages() - before;
    one.start();
    EXPECT_TRUE(w.step_until([&] { return one.is_over(); }));
    w.step(5);
  }
  EXPECT_GE(again, 2u);
  EXPECT_LE(again, 8u);
  expect_clean();
}

TEST_F(offers, open_ones_and_claimed_ones__may_be_left_behind) {
  encourage();
  const auto r1 = receive(mem_kind::device, 7), r2 = receive(mem_kind::device, 8);
  step_sender();
  const auto a = send(mem_kind::device, 7, 1, 3000);
  EXPECT_EQ(claims, 1u);
  step_sender();  // the bytes are there and the receiver has not heard of it; the world ends here
}

// ---- forged, late and repeated messages ----

TEST_F(offers, messages_about_none__are_dropped_and_change_nothing) {
  encourage();
  const auto there = receive(mem_kind::device, 7);
  const auto dropped = w[1].channel->dropped.sum();
  const wire::name real{0, 1};
  const std::uint64_t huge = ~std::uint64_t{0};
  int count = 0;
  for (const wire::name name : {wire::name{}, wire::name{0, 2}, wire::name{1, 1},
                                wire::name{proto::offers::OPEN, 1}, wire::name{~0u, ~0u}, real}) {
    // The last is open and nobody has claimed it.
    tell(0, 1, staged_kind::claim, wire::claim{name, 100, 64});
    tell(0, 1, staged_kind::claim, wire::claim{name, huge, huge});
    tell(0, 1, staged_kind::offer_end, wire::offer_end{name, 100, 1, 0});
    tell(0, 1, staged_kind::offer_end, wire::offer_end{name, huge, 0, 0});
    count += 4;
  }
  tell(0, 1, staged_kind::offer, wire::offer{{proto::offers::OPEN, 1}, {}, 0, 0, 0, 0, 0, 0});
  EXPECT_EQ(w[1].channel->dropped.sum(), dropped + count + 1);
  step_sender();
  const auto here = send(mem_kind::device, 7, 1, 3000);
  EXPECT_EQ(claims, 1u);
  w.step(50);
  EXPECT_TRUE(holds(*there, 1, 3000));
  expect_clean();
}

TEST_F(offers, that_name_what_is_not_there__lead_to_a_request) {
  const std::uint64_t huge = ~std::uint64_t{0};
  const end memory(mem_kind::device);
  lci::mem::region region{memory.buffer.at(), ROOM, mem_kind::device, {}};
  std::string why_not;
  region.share = w.gpu(1).share(region.address, ROOM, why_not);
  const auto made = w[1].core.regions.insert(region);
  const wire::name good{made.slot, made.generation};
  struct {
    wire::name region;
    std::uint64_t offset, word;
  } const forged[] = {
      {{}, 0, 64},     {{99, 1}, 0, 64}, {good, huge, 64}, {good, 1, 64},
      {good, 0, huge}, {good, 0, 3},     {good, 0, 4096},  // a word of another value, if it is one
  };
  for (const auto& f : forged) {
    const auto there = receive(mem_kind::device, 7);
    tell(1, 0, staged_kind::offer,
         wire::offer{{3, 9},
                     f.region,
                     f.offset,
                     ROOM,
                     7,
                     f.word,
                     static_cast<std::uint32_t>(w[1].engine_rcomp()),
                     0});
    const auto here = send(mem_kind::device, 7, 1, ROOM);
    EXPECT_EQ(claims, 0u);
    w.step(50);
    EXPECT_TRUE(holds(*there, 1, ROOM)) << f.offset << " " << f.word;
  }
  w[1].core.regions.erase(made);
  expect_clean();
}

// ---- the property, over random programs ----

namespace {

struct program {
  const char* name;
  bool is_ordered;
  gpu_options options;
};

std::vector<program> programs() {
  std::vector<program> all;
  const auto add = [&](const char* name, bool ordered, auto&& change) {
    program p{name, ordered, {}};
    p.options.sim.maps_arenas = true;
    change(p.options);
    all.push_back(p);
  };
  add("plain", true, [](gpu_options&) {});
  add("slow_copies", true, [](gpu_options& o) { o.gpu.max_delay = 30; });
  add("refusing", true, [](gpu_options& o) {
    o.sim.refuse_one_in = 3;
    o.sim.depth = 4;
  });
  add("no_flags", true, [](gpu_options& o) { o.gpu.refuses_flags = true; });
  add("no_mapping_of_memory", true, [](gpu_options& o) { o.gpu.refuses_map = true; });
  add("unordered", false, [](gpu_options& o) {
    o.sim.caps.ordered = false;
    o.sim.reorder_one_in = 3;
    o.sim.max_delay_polls = 5;
    o.sim.late = true;
  });
  return all;
}

class offer_programs : public offers, public testing::WithParamInterface<program> {
 protected:
  offer_programs() : offers(GetParam().options) {}
};

}  // namespace

INSTANTIATE_TEST_SUITE_P(sim, offer_programs, testing::ValuesIn(programs()),
                         [](const auto& of) { return of.param.name; });

// Host and GPU memory at both ends, few tags, receives before and after their messages. Each
// message arrives once and whole, and where the network keeps order, in the order of its tag.
TEST_P(offer_programs, every_message_finds_its_receive) {
  struct key {
    std::vector<std::unique_ptr<end>> sends, receives;
  };
  std::mt19937 rng(5);
  const auto draw = [&rng](unsigned n) { return static_cast<unsigned>(rng() % n); };
  const auto draw_kind = [&] { return draw(4) == 0 ? mem_kind::host : mem_kind::device; };
  for (int round = 0; round < 30; ++round) {
    std::array<key, 3> keys;
    for (int op = 0; op < 120; ++op) {
      const unsigned tag = draw(3);
      key& at = keys[tag];
      if (draw(2) == 0 && at.receives.size() < at.sends.size() + 40) {
        at.receives.push_back(receive(draw_kind(), tag));
      } else if (at.sends.size() < at.receives.size() + 3) {
        const auto seed = static_cast<unsigned>(at.sends.size());
        at.sends.push_back(send(draw_kind(), tag, seed, 200 + 150 * seed));
      }
      for (unsigned i = draw(6); i > 0; --i) w.step_one(static_cast<int>(draw(2)));
    }
    for (unsigned tag = 0; tag < 3; ++tag) {
      key& at = keys[tag];
      while (at.receives.size() < at.sends.size()) at.receives.push_back(receive(draw_kind(), tag));
      while (at.sends.size() < at.receives.size()) {
        const auto seed = static_cast<unsigned>(at.sends.size());
        at.sends.push_back(send(draw_kind(), tag, seed, 200 + 150 * seed));
      }
    }
    w.step(300);
    for (const key& at : keys) {
      std::vector<bool> found(at.sends.size());
      for (std::size_t i = 0; i < at.receives.size(); ++i) {
        const end& r = *at.receives[i];
        ASSERT_EQ(r.told.seen.size(), 1u) << "receive " << i;
        const std::size_t which = (r.told.seen[0].size - 200) / 150;
        ASSERT_LT(which, found.size());
        EXPECT_FALSE(found[which]) << "message " << which << " came twice";
        found[which] = true;
        EXPECT_TRUE(holds(r, static_cast<unsigned>(which), 200 + 150 * which));
        EXPECT_TRUE(r.buffer.is_guarded());
        if (GetParam().is_ordered) {
          EXPECT_EQ(which, i) << "round " << round;
        }
      }
    }
    if (HasFailure()) return;
    expect_clean();
  }
  if (!GetParam().options.gpu.refuses_map) {
    EXPECT_GT(claims, 10u);
  }
}
